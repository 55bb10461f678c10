"""The lines of ``events.jsonl`` one after another, so that none needs to stay in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from traceback import extract_tb
from typing import BinaryIO

import msgspec

from analysis.records.schema import Line, decode_line
from reading import Unreadable
from reading.files import MIB, read_bytes, special
from reading.lines import line_blocks

DAMAGED = "The record is damaged: repeat the run or leave it out"
MAX_BYTES = 256 * MIB
"""Most bytes of a file that is read whole."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE)
"""Errors of the machine, not of the record."""


class RecordError(ValueError):
    """A record that cannot be read: the file and line, the error, and the remedy."""


def read_whole(path: Path) -> bytes:
    """A file of a record; raises :class:`RecordError` for a missing one, and for one of more than is read."""
    if not path.exists():
        raise RecordError(f"{path}: missing. Is {path.parent} the directory of a run?")
    try:
        return read_bytes(path, MAX_BYTES)
    except Unreadable as error:
        raise RecordError(f"{path}: {error}") from None


@contextmanager
def of_record(path: Path) -> Iterator[None]:
    """Any error meanwhile becomes a :class:`RecordError` about this record, so that others are still read.

    Nothing that a file holds is known to make sense before it is used, and no two damaged files fail alike. A pipe or a
    device among the files is refused at once: reading it would wait, or never end.
    """
    try:
        for file, kind in _special(path):
            raise RecordError(f"{file}: is {kind}, and not a file, so nothing of this record is read; remove it")
        yield
    except RecordError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise
        place = extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
        words = " ".join(f"{path}: cannot be analysed ({where}: {error}).".split())
        raise RecordError(f"{words} {DAMAGED}") from error


def _special(folder: Path) -> Iterator[tuple[Path, str]]:
    """Pipes, sockets and devices anywhere in a record, and what each is."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with suppress(OSError):  # a link to nowhere: a later reader reports it
                if kind := special(path.stat()):
                    yield path, kind


class Log:
    """Reads a log in blocks of lines; a torn line at its end is left out, and ``torn`` says so afterwards."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = False

    def modified_ns(self) -> int:
        """When it was last written to; raises :class:`RecordError` if it is missing."""
        with _open(self.path) as file:
            return os.fstat(file.fileno()).st_mtime_ns

    def blocks(self) -> Iterator[tuple[list[Line], list[int]]]:
        """(lines, the place of each in the file: bytes from its beginning).

        Raises:
            RecordError: the file is missing, a line is malformed, or lines are missing or duplicated.
        """
        number = place = 0
        with _open(self.path) as file:
            for texts in self._texts(file):
                if not texts[-1].endswith(b"\n") and _is_torn(texts[-1]):
                    self.torn = True
                    texts.pop()
                lines = self._decode(texts, number)
                number += len(lines)
                places = []
                for text in texts:
                    places.append(place)
                    place += len(text)
                yield lines, places

    def at(self, places: Iterable[int]) -> Iterator[Line]:
        """The lines that begin at these places; raises :class:`RecordError` for one that cannot be read."""
        with _open(self.path) as file:
            for place in places:
                file.seek(place)
                try:
                    yield decode_line(file.readline())
                except msgspec.DecodeError as error:
                    raise RecordError(f"{self.path}: byte {place}: {error}. {DAMAGED}") from None

    def _texts(self, file: BinaryIO) -> Iterator[list[bytes]]:
        try:
            yield from line_blocks(file)
        except Unreadable as error:
            raise RecordError(f"{self.path}: {error}. {DAMAGED}") from None

    def _decode(self, texts: list[bytes], number: int) -> list[Line]:
        """The lines of a block, of which the first is ``number`` (from 0); their ``seq`` has no gaps."""
        lines = []
        for due, text in enumerate(texts, start=number):
            try:
                line = decode_line(text)
            except msgspec.DecodeError as error:
                raise RecordError(f"{self.path}:{due + 1}: {error}. {DAMAGED}") from None
            if line.seq != due:
                what = f"seq {line.seq} where {due} is due. Lines are missing or duplicated"
                raise RecordError(f"{self.path}:{due + 1}: {what}: repeat the run or leave it out")
            lines.append(line)
        return lines


def raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file with their newlines, undecoded; raises :class:`RecordError`."""
    with _open(path) as file:
        try:
            yield from chain.from_iterable(line_blocks(file))
        except Unreadable as error:
            raise RecordError(f"{path}: {error}. {DAMAGED}") from None


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise RecordError(f"{path}: missing. Is {path.parent} the directory of a run?") from None
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror})") from None


def _is_torn(text: bytes) -> bool:
    """Whether a last line lacks more than its newline."""
    try:
        decode_line(text)
    except msgspec.DecodeError:
        return True
    return False
