"""Logs of a record, open for more lines: where somebody has put a link meanwhile, nothing is written through it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

LINKED = (errno.ELOOP, errno.ENOTDIR)
"""A file that is a link, and a folder that is one."""


def open_log(path: Path, *, fresh: bool = False) -> int:
    """A descriptor of the log, made where it is missing and, if ``fresh``, emptied; for writing at its end.

    Neither the file nor its folder may be a link. A run does not end for that: its output there is lost.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            how = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(path.name, how | (os.O_TRUNC if fresh else 0), 0o644, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno not in LINKED:
            raise
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def remove_empty_logs(folder: Path) -> None:
    """Remove the logs of tasks that have printed nothing; files behind a link are not ours."""
    if folder.is_symlink():
        return
    for log in folder.glob("*.log"):
        if not log.lstat().st_size:
            log.unlink(missing_ok=True)
