"""A run's folder below ``launcher.shared_dir``: removed with the run, or, if that was killed, by a later run.

The driver holds a lock on the file ``owner`` in it, which the kernel takes away with the driver, however that ends. The
file says on which machine, since locks of shared file systems need not reach other machines: only there the folder may
be removed, by the run's agents or by the next run. Nothing goes but what a run stores in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path
from typing import final

from runtime.live.machines.crash_registry import boot_id
from runtime.record.checkpoint import CHECKPOINTS

PREFIX, OWNER = "stragglab-", "owner"
MEETING_PLACE = "groups"
"""Folder for the rendezvous of torch's groups, which is a file that all members reach: below this one, or in the record
of a run on one machine."""
STORED = (CHECKPOINTS, f".{CHECKPOINTS}.*")
"""Patterns of files that servers and replicas store; the second one: files that are being written."""


@final
class SharedFolder:
    """A new folder below ``parent``, ours until :meth:`remove`; folders of killed runs are removed."""

    def __init__(self, parent: Path) -> None:
        for folder in parent.glob(f"{PREFIX}*"):
            remove_left(folder)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        unnamed = self.path / f".{OWNER}"  # has its name once it is locked
        self._lock = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):  # a file system without locks: only the run itself removes its folder
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._lock, boot_id().encode())
            unnamed.rename(self.path / OWNER)

    def remove(self) -> None:
        """Remove it, and the run's files in it."""
        (self.path / f".{OWNER}").unlink(missing_ok=True)
        _remove(self.path)
        os.close(self._lock)


def remove_left(folder: Path) -> None:
    """Remove the folder of a run of this machine that has ended without; one that runs, or of elsewhere, stays."""
    if folder.is_symlink():
        return
    try:
        owner = os.open(folder / OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # gone, not ours, or no run's folder
        return
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.read(owner, 64) == boot_id().encode():
            _remove(folder)
    except OSError:  # its run holds the lock
        pass
    finally:
        os.close(owner)


def _remove(folder: Path) -> None:
    meeting = folder / MEETING_PLACE
    met = () if meeting.is_symlink() else tuple(meeting.glob("*"))
    for path in (*met, *(path for pattern in STORED for path in folder.glob(pattern))):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        meeting.rmdir()
    with contextlib.suppress(OSError):
        if os.listdir(folder) in ([OWNER], []):
            (folder / OWNER).unlink(missing_ok=True)
            folder.rmdir()
