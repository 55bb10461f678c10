"""Lines of a file in blocks, so that neither a long file nor a long line has to fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from reading.errors import Unreadable
from reading.files import MIB

BLOCK_BYTES = 1 << 18
"""Lines are read, decoded and released in blocks of about so many bytes."""
MAX_LINE_BYTES = 16 * MIB
"""Size of a line: as JSON it takes twenty times as much memory."""


def line_blocks(file: BinaryIO) -> Iterator[list[bytes]]:
    """All lines with their newlines, which the last one may lack; raises :class:`Unreadable` for a very long one."""
    number, rest = 1, b""
    while data := file.read(BLOCK_BYTES):
        whole, newline, rest = (rest + data).rpartition(b"\n")
        if newline:
            lines = [line + newline for line in whole.split(newline)]
            number += len(lines)
            yield lines
        if len(rest) > MAX_LINE_BYTES:
            raise Unreadable(
                f"line {number} has more than {MAX_LINE_BYTES // MIB} MiB, the most that is read of a line"
            )
    if rest:
        yield [rest]
