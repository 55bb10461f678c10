"""The data plane's frame: a 64-byte header, then raw float32, or their upper 16 bits (``bfloat16.py``).

64 bytes keep payloads aligned with page-aligned buffers on both sides, which measured as a factor of
three in the kernel's copy; for the same reason ``runtime.core.vectors`` splits at multiples of 16 floats.
"""

from __future__ import annotations

import struct

import msgspec

from runtime.core.vectors import FloatVector
from runtime.live.transport.bfloat16 import Bfloat16Vector

HEADER_BYTES = 64
MAGIC = 0x31424753

PUSH, ACK, PARAMS, POST = range(1, 5)
"""Frames: gradient from worker to server, its receipt, parameters from server to worker; a gradient without receipt."""

_HEADER = struct.Struct("<IBxxxIQQQI")


class Header(msgspec.Struct, frozen=True, gc=False):
    """``ticket`` identifies the gradient or the delivery, ``length`` counts the payload bytes that follow.

    With length 0, the payload is in the shared buffers, parameters in ``slot``.
    """

    kind: int
    generation: int
    ticket: int
    version: int
    length: int
    slot: int


def pack(kind: int, generation: int, ticket: int, version: int, length: int, slot: int = 0) -> bytes:
    """The header as 64 bytes."""
    return _HEADER.pack(MAGIC, kind, generation, ticket, version, length, slot).ljust(HEADER_BYTES, b"\0")


def unpack(data: bytes | bytearray | memoryview) -> Header:
    """The header in these bytes; raises ``ConnectionError`` if they are not one."""
    magic, kind, generation, ticket, version, length, slot = _HEADER.unpack_from(data)
    if magic != MAGIC or not PUSH <= kind <= POST:
        raise ConnectionError("a frame with an unknown header is refused")
    return Header(kind, generation, ticket, version, length, slot)


def as_bytes(vector: FloatVector | Bfloat16Vector) -> memoryview:
    """The vector's memory, writable."""
    return memoryview(vector).cast("B")  # type: ignore[arg-type]
