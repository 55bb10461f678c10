"""Files of logs, compressed or not and in any encoding, with errors that name the file."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

from analysis.logs.limits import MOST_BYTES
from analysis.logs.step_log import LogError
from reading import Unreadable
from reading.files import special
from reading.unpacked import LOOKED_AT, encoding_of, open_unpacked, open_unpacked_text


def refuse_irregular(path: Path) -> None:
    """Refuse anything but files and directories: it might have no end, or no beginning.

    Raises:
        LogError: it is a pipe, a device or a socket.
    """
    if not path.is_dir() and (kind := special(path.stat())):
        raise LogError(f"{path}: is {kind}; write what it gives to a file, and name that")


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedReader]:
    """The bytes of a file, unpacked.

    Raises:
        LogError: it cannot be read, is damaged, or is longer than ``MOST_BYTES``.
    """
    with _name(path), open_unpacked(path, MOST_BYTES) as file:
        yield file


@contextlib.contextmanager
def open_text(path: Path, errors: str = "replace", most: int | None = None) -> Iterator[io.TextIOWrapper]:
    """Its text, with ends of lines as they are anywhere.

    ``errors``: the treatment of bytes that are no text; ``most``: bytes, instead of ``MOST_BYTES``.
    """
    with _name(path), open_unpacked_text(path, MOST_BYTES if most is None else most, errors=errors) as file:
        yield file


def content(path: Path) -> bytes:
    """All of a file as UTF-8; see :func:`open_bytes`."""
    with open_bytes(path) as file:
        data = file.read()
    encoding = encoding_of(data[:LOOKED_AT])
    return data if encoding == "utf-8" else data.decode(encoding, "replace").encode()


@contextlib.contextmanager
def _name(path: Path) -> Iterator[None]:
    try:
        yield
    except Unreadable as error:
        raise LogError(f"{path}: {error}") from None
