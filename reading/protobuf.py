"""Fields of a message in the encoding of Protocol Buffers, without its schema: numbers, bytes, and nothing executed.

Source of the encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from reading.errors import Unreadable

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Kinds of fields; groups (3 and 4) are no longer written."""
MOST_BITS = 64
"""Bits of a number."""
BROKEN = "is damaged (a message ends within a field)"

Value = int | bytes
"""A number as it is encoded (see :func:`as_float` and :func:`as_signed`), or bytes."""


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """(number, value) of every field, in the order of the message.

    Raises:
        Unreadable: the message is damaged.
    """
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = varint(message, at)
            yield number, value
            continue
        if kind not in (FIXED64, BYTES, FIXED32):
            raise Unreadable(f"is damaged (a field of kind {kind}, which no message has)")
        length, at = varint(message, at) if kind == BYTES else (8 if kind == FIXED64 else 4, at)
        if length > len(message) - at:
            raise Unreadable(BROKEN)
        part = message[at : at + length]
        at += length
        yield number, part if kind == BYTES else int.from_bytes(part, "little")


def varint(message: bytes, at: int) -> tuple[int, int]:
    """(the number that begins at a place, the place behind it).

    Raises:
        Unreadable: the message ends within it, or it is too long.
    """
    value = 0
    for place, byte in enumerate(message[at : at + MOST_BITS // 7 + 1]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & ((1 << MOST_BITS) - 1), at + place + 1
    raise Unreadable(BROKEN)


def as_float(value: Value, size: int) -> float:
    """A number of 4 or 8 bytes as a float; ``nan`` for bytes of another field."""
    if isinstance(value, bytes) or value >= 1 << (8 * size):
        return float("nan")
    return float(struct.unpack("<f" if size == 4 else "<d", value.to_bytes(size, "little"))[0])


def as_signed(value: Value) -> int:
    """A number as ``int64``; 0 for bytes."""
    if isinstance(value, bytes):
        return 0
    return value - (1 << MOST_BITS) if value >= 1 << (MOST_BITS - 1) else value
