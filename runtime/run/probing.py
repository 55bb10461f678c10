"""Tests before the work whether something can be written, by writing it; nothing remains."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from runtime.errors import ConfigError

PREFIX = ".stragglab-"
SHOWN = 3
"""Number of files in the way that an error names."""


def probe_folder(folder: Path) -> None:
    """Raise ``OSError`` unless the directory can be written, or created if missing."""
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    with _uninterrupted():
        os.rmdir(tempfile.mkdtemp(prefix=PREFIX, dir=place))


def refuse_unwritable_folder(
    option: str, folder: Path | None, ours: Collection[str] | None = None, marks: Collection[str] = ()
) -> None:
    """Raise :class:`ConfigError`, naming the option and its value.

    ``ours``: the names (shell patterns) of all that the program writes there. A directory with anything else in it is
    refused, so that nothing of a user's is overwritten; hidden files count as nothing. None: a directory that the
    program shares with others, and in which it replaces no file of theirs. ``marks``: the names of ``ours`` by which an
    earlier output is recognised, where a user may well have a file with another of the names.
    """
    if folder is None:
        return
    try:
        probe_folder(folder)
        foreign = _foreign(folder, ours, marks) if ours is not None and folder.exists() else []
    except OSError as error:
        raise ConfigError(f"{option} {folder}: cannot be written ({reason(error)}); choose another directory") from None
    if foreign:
        raise ConfigError(
            f"{option} {folder}: is not empty ({shown(foreign)}), and not of this command; choose a new or an empty "
            "directory"
        )


def _foreign(folder: Path, ours: Collection[str], marks: Collection[str]) -> list[str]:
    """Names of files that the program has not written there."""
    names = [name for name in os.listdir(folder) if not name.startswith(".")]
    if marks and not set(marks) & set(names):
        return names
    return [name for name in names if not any(fnmatchcase(name, pattern) for pattern in ours)]


def shown(names: Collection[str]) -> str:
    """A few of the names in a directory."""
    return ", ".join([*sorted(names)[:SHOWN], *(["..."] if len(names) > SHOWN else [])])


def refuse_unwritable_file(option: str, file: Path | None) -> None:
    """Raise :class:`ConfigError`, naming the option and its value."""
    if file is None:
        return
    try:
        is_folder = file.is_dir()
        file.exists()  # raises for a name that is too long
        probe_folder(file.parent)
    except OSError as error:
        raise ConfigError(f"{option} {file}: cannot be written ({reason(error)}); choose another file") from None
    if is_folder:
        raise ConfigError(f"{option} {file}: is a directory; name a file")


def reason(error: OSError) -> str:
    """The reason of an error, for users."""
    return (error.strerror or str(error)).lower()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Defer Ctrl-C, so that it cannot leave the probe behind."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
