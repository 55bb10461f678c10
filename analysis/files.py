"""Write a whole file or none: a kill leaves neither half a file nor a temporary one; and the order of files' names."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

_written: ContextVar[list[Path] | None] = ContextVar("written", default=None)


def natural(name: str) -> list[tuple[int, str]]:
    """Sort key that puts fig10 behind fig9."""
    # numbers are at odd places, and compared as text, since they may be of any length
    return [
        (len(part.lstrip("0")), part.lstrip("0")) if place % 2 else (-1, part)
        for place, part in enumerate(re.split(r"([0-9]+)", name))
    ]


def below(root: Path, name: str) -> Path:
    """The folder of a record in which something derived is written; raises ``OSError`` for a link out of the record."""
    if (folder := root / name).is_symlink():
        raise OSError(errno.ELOOP, "is a link, and would be written through; remove it", str(folder))
    return folder


def write_below(root: Path, name: str, content: bytes | str) -> Path:
    """Write a derived file of a record, such as ``tables/jobs.parquet``; raises ``OSError`` as :func:`below` does."""
    folder, _, file = name.rpartition("/")
    return write_file((below(root, folder) if folder else root) / file, content)


def write_file(path: Path, content: bytes | str) -> Path:
    """Write ``content`` atomically, replacing an existing file; creates missing directories. Returns ``path``.

    The content goes to an unnamed file first, which vanishes with its process, and is linked when it is complete. Where
    the system has no such files, or ``path`` exists, a short-lived temporary name is needed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (
        content.encode(errors="replace") if isinstance(content, str) else content
    )  # names may have bytes that are no text
    try:
        _write_nameless(path, data)
    except (AttributeError, OSError):
        _write_named(path, data)
    if (written := _written.get()) is not None:
        written.append(path)
    return path


@contextlib.contextmanager
def written_files() -> Iterator[list[Path]]:
    """The files that :func:`write_file` writes meanwhile, in a list that grows."""
    written: list[Path] = []
    token = _written.set(written)
    try:
        yield written
    finally:
        _written.reset(token)


def _write_nameless(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, 0o666), "wb") as file:
        file.write(data)
        file.flush()
        _give_name(file.fileno(), path)


def _give_name(fd: int, path: Path) -> None:
    try:
        _link(fd, path)
    except FileExistsError:
        with _temporary(path) as temporary:
            _link(fd, temporary)
            os.replace(temporary, path)


def _link(fd: int, path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # only with a dir_fd does Python use linkat, which follows the link in /proc to the unnamed file
        os.link(f"/proc/self/fd/{fd}", path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _write_named(path: Path, data: bytes) -> None:
    with _temporary(path) as temporary:
        temporary.write_bytes(data)
        os.replace(temporary, path)


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A name next to ``path`` that is removed at the end, whatever happens."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
