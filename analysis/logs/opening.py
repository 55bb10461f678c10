"""Files of logs: compressed or not, in any encoding, by what they hold rather than by their names; never endless."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from analysis.logs.limits import MEBI, MOST_BYTES
from analysis.logs.step_log import LogError
from reading.files import special

BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException)
SUFFIXES = (".gz", ".zst", ".bz2", ".xz")
"""Of compressed files. Only names lose them: what a file is, its first bytes say."""
UNPACKED: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(pa.PythonFile(file), "zstd"),
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe\0\0": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""Byte order marks; the longer ones first."""
LOOKED_AT = 256
"""Bytes by which an encoding is recognised."""


class _Bounded(io.RawIOBase):
    """Reads no more than ``MOST_BYTES``; the next byte is an error."""

    def __init__(self, path: Path, inner: Any) -> None:
        self._path, self._inner, self._left = path, inner, MOST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._inner.read(min(len(buffer), MEBI))
        self._left -= len(data)
        if self._left < 0:
            raise LogError(
                f"{self._path}: has more than {MOST_BYTES // MEBI} MiB unpacked, the most that is read; "
                "give a part of it, of fewer steps or ranks"
            )
        buffer[: len(data)] = data
        return len(data)


def plain_name(path: Path) -> str:
    """Its name in lower case, without the suffix of a compressed file."""
    name = path.name.lower()
    return name.rpartition(".")[0] if name.endswith(SUFFIXES) else name


def refuse_irregular(path: Path) -> None:
    """Refuse what is neither a file nor a directory: it might have no end, or no beginning.

    Raises:
        LogError: it is a pipe, a device or a socket.
    """
    if not path.is_dir() and (kind := special(path.stat())):
        raise LogError(f"{path}: is {kind}; write what it gives to a file, and name that")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked.

    Raises:
        LogError: it cannot be read, is damaged, or is longer than ``MOST_BYTES``.
    """
    try:
        refuse_irregular(path)
        with path.open("rb") as file:
            start = file.peek(8)
            unpack = next((each for magic, each in UNPACKED.items() if start.startswith(magic)), None)
            yield io.BufferedReader(_Bounded(path, file if unpack is None else unpack(file)), MEBI)
    except BROKEN as error:
        why = (error.strerror if isinstance(error, OSError) else "") or str(error) or "damaged"
        raise LogError(f"{path}: cannot be read ({' '.join(why.split()).lower()})") from None


@contextlib.contextmanager
def opened_text(path: Path, errors: str = "replace") -> Iterator[io.TextIOWrapper]:
    """Its text, with ends of lines as they are anywhere; ``errors``: what bytes that are no text become."""
    with opened(path) as file:
        yield io.TextIOWrapper(file, encoding=encoding_of(file.peek(LOOKED_AT)[:LOOKED_AT]), errors=errors)  # type: ignore[attr-defined]


def encoding_of(start: bytes) -> str:
    """By its byte order mark, or by the zeros that Latin letters have in UTF-16; else UTF-8."""
    for mark, encoding in MARKS.items():
        if start.startswith(mark):
            return encoding
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if start[first::2].count(0) > len(start) // 4:
            return encoding
    return "utf-8"


def content(path: Path) -> bytes:
    """All of a file as UTF-8; see :func:`opened`."""
    with opened(path) as file:
        data = file.read()
    encoding = encoding_of(data[:LOOKED_AT])
    return data if encoding == "utf-8" else data.decode(encoding, "replace").encode()
