"""A run's directory belongs to one run, which finds it absent or empty and locks it; the lock ends with the process."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runtime.errors import ConfigError
from runtime.run.probing import reason, shown

SETTINGS = ".hydra"
"""Folder in which Hydra stores a job's configuration before the job begins."""


class _Claim(NamedTuple):
    descriptor: int
    """Descriptor of the locked directory; closed only by the end of the process."""
    made: list[Path]
    """Directories that were missing, from the top down."""


_held: dict[Path, _Claim] = {}


def claim(setting: str, directory: Path, *, with_record: bool = False) -> None:
    """Create the directory and lock it; raises :class:`ConfigError` if it is another run's, or not empty.

    ``with_record``: it belongs to a sweep, which continues there.
    """
    try:
        made = _missing(directory)
        descriptor = _locked(directory)
    except BlockingIOError:
        raise ConfigError(f"{setting}={directory}: another run is writing there; choose another directory") from None
    except OSError as error:
        raise ConfigError(
            f"{setting}={directory}: cannot be written ({reason(error)}); choose another directory"
        ) from None
    if not with_record:
        try:
            refuse_used(setting, directory)
        except ConfigError:
            os.close(descriptor)
            raise
    _held[directory.resolve()] = _Claim(descriptor, made)


def release(directory: Path) -> None:
    """Give a claimed directory back; its files stay."""
    os.close(_held.pop(directory.resolve()).descriptor)


def claimed(directory: Path) -> bool:
    """Whether this process has claimed the directory."""
    return directory.resolve() in _held


def is_ours_still(directory: Path) -> bool:
    """Whether a claimed directory has been neither removed nor renamed."""
    return _is_still(directory, _held[directory.resolve()].descriptor)


def forget(directory: Path) -> None:
    """Leave a claimed directory as it was found, after a job that was refused."""
    if (held := _held.get(directory.resolve())) is None:
        return
    shutil.rmtree(directory / SETTINGS, ignore_errors=True)
    for folder in reversed(held.made):
        with suppress(OSError):  # there is something else in it
            if folder.resolve() != Path.cwd():
                folder.rmdir()


def refuse_used(setting: str, directory: Path, beside: Collection[str] = ()) -> None:
    """Raise :class:`ConfigError` unless the directory is missing or has nothing in it but the names ``beside``.

    A user's files there would mix with a record, or be overwritten by it.
    """
    try:
        names = set(os.listdir(directory)) - set(beside)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(
            f"{setting}={directory}: cannot be used ({reason(error)}); choose another directory"
        ) from None
    if names and holds_record(directory):
        raise ConfigError(f"{setting}={directory}: holds a record already; choose another directory")
    if names:
        raise ConfigError(f"{setting}={directory}: is not empty ({shown(names)}); choose a new or an empty directory")


def holds_record(directory: Path) -> bool:
    """Files of a run, or of a run of a sweep."""
    return any(any(directory.glob(name)) for name in ("events.jsonl", "meta.json", "*/meta.json"))


def is_of_a_job(directory: Path) -> bool:
    """Whether a job has begun there: no link, with the settings or the record of one."""
    return not directory.is_symlink() and ((directory / SETTINGS).is_dir() or holds_record(directory))


def _missing(directory: Path) -> list[Path]:
    """The directory and those above it, as far as they do not exist, from the top down."""
    return [path for path in reversed((directory, *directory.parents)) if not path.exists()]


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
