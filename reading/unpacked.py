"""Open a file, compressed or not and in any encoding: its content tells, not its name; never endless."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from reading.errors import Unreadable
from reading.files import MIB, open_file

BROKEN = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)
"""Errors that unpacking raises; ``ValueError``: pyarrow."""
SUFFIXES = (".gz", ".zst", ".bz2", ".xz")
"""Endings of compressed files, which are only removed from names: the first bytes of a file determine its format."""
MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe\0\0": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""Byte order marks; the longer ones first."""
READ: ContextVar[Callable[[Path, float], None]] = ContextVar("READ", default=lambda path, part: None)
"""Is called with a file and the part of it that has been read, again and again; a file may be read several times."""
LOOKED_AT = 256
"""Bytes by which an encoding is recognised."""


def _zstandard(file: BinaryIO) -> Any:
    import pyarrow as pa  # workers read no such file

    return pa.CompressedInputStream(pa.PythonFile(file), "zstd")


UNPACKED: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\x28\xb5\x2f\xfd": _zstandard,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}


class _Bounded(io.RawIOBase):
    """Reads no more than ``most`` bytes; the next one is an error."""

    def __init__(self, inner: Any, most: int, reached: Callable[[], None]) -> None:
        self._inner, self._most, self._left = inner, most, most
        self._reached = reached

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            data = self._inner.read(min(len(buffer), MIB))
        except BROKEN as error:
            raise _report_damage(error) from None
        self._left -= len(data)
        if self._left < 0:
            raise Unreadable(
                f"has more than {self._most // MIB} MiB unpacked, the most that is read; give a part of it"
            )
        buffer[: len(data)] = data
        self._reached()
        return len(data)


def plain_name(path: Path) -> str:
    """Its name in lower case, without the suffix of a compressed file."""
    name = path.name.lower()
    return name.rpartition(".")[0] if name.endswith(SUFFIXES) else name


@contextlib.contextmanager
def open_unpacked(path: Path, most: int) -> Iterator[io.BufferedReader]:
    """The bytes of an ordinary file, of which there may be ``most``; ``READ`` follows.

    Raises:
        Unreadable: it cannot be opened; while it is read, it is damaged or longer.
    """
    with open_file(path) as file:
        start = file.peek(8)  # type: ignore[attr-defined]  # of a buffered file
        unpack = next((each for magic, each in UNPACKED.items() if start.startswith(magic)), None)
        try:
            inner = file if unpack is None else unpack(file)
        except BROKEN as error:
            raise _report_damage(error) from None
        told, size = READ.get(), max(1, path.stat().st_size)
        yield io.BufferedReader(_Bounded(inner, most, lambda: told(path, min(1.0, file.tell() / size))), MIB)


@contextlib.contextmanager
def open_unpacked_text(path: Path, most: int, *, errors: str = "strict", newline: str | None = None) -> Iterator[Any]:
    """The same as text; ``errors`` and ``newline`` as of ``open``."""
    with open_unpacked(path, most) as file:
        yield io.TextIOWrapper(file, encoding_of(file.peek(LOOKED_AT)[:LOOKED_AT]), errors=errors, newline=newline)


def encoding_of(start: bytes) -> str:
    """Tell the encoding by the byte order mark, or by the zeros that Latin letters have in UTF-16; else UTF-8."""
    for mark, encoding in MARKS.items():
        if start.startswith(mark):
            return encoding
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if start[first::2].count(0) > len(start) // 4:
            return encoding
    return "utf-8"


def _report_damage(error: Exception) -> Unreadable:
    why = (error.strerror if isinstance(error, OSError) else "") or str(error) or "damaged"
    return Unreadable(f"cannot be read ({' '.join(why.split()).lower()})")
