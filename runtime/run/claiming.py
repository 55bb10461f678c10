"""A run's directory belongs to one run: claimed by a lock before it is written to, which ends with the process."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from runtime.errors import ConfigError
from runtime.run.probing import reason

_held: dict[Path, int] = {}
"""Descriptors of locked directories; they are closed only by the end of the process."""


def claim(setting: str, directory: Path, *, with_record: bool = False) -> None:
    """Create the directory and lock it; raises :class:`ConfigError` if it is another run's, or holds a record.

    ``with_record``: it may hold one, since a sweep continues there.
    """
    try:
        descriptor = _locked(directory)
    except BlockingIOError:
        raise ConfigError(f"{setting}={directory}: another run is writing there; choose another directory") from None
    except OSError as error:
        raise ConfigError(f"{setting}={directory}: cannot be written ({reason(error)})") from None
    if not with_record and holds_record(directory):
        os.close(descriptor)
        raise ConfigError(f"{setting}={directory}: holds a record already; choose another directory")
    _held[directory.resolve()] = descriptor


def release(directory: Path) -> None:
    """Give a claimed directory back; what is in it stays."""
    os.close(_held.pop(directory.resolve()))


def claimed(directory: Path) -> bool:
    """Whether this process has claimed the directory."""
    return directory.resolve() in _held


def holds_record(directory: Path) -> bool:
    """Files of a run, or of a run of a sweep."""
    return any(any(directory.glob(name)) for name in ("events.jsonl", "meta.json", "*/meta.json"))


def _locked(directory: Path) -> int:
    """Lock a directory; raises ``BlockingIOError`` if another process has the lock."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # another run was refused and has just removed it
            continue
        try:
            _lock(descriptor)
            if _is_still(directory, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock if the file system can; otherwise only the event log, which must be new, separates runs."""
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise


def _is_still(directory: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(directory), os.fstat(descriptor))
    except FileNotFoundError:
        return False
