"""The data plane's frame: a 64-byte header, then raw float32.

64 bytes keep payloads aligned with page-aligned buffers on both sides, which was measured to be worth a factor of
three in the kernel's copy; for the same reason ``runtime.core.vectors`` cuts at multiples of 16 floats.
"""

from __future__ import annotations

import struct

import msgspec

from runtime.core.vectors import FloatVector

HEADER_BYTES = 64
MAGIC = 0x31424753

PUSH, ACK, PARAMS = range(1, 4)
"""worker -> server gradient; its receipt; server -> worker parameters."""

_HEADER = struct.Struct("<IBxxxIQQQI")


class Header(msgspec.Struct, frozen=True, gc=False):
    """``ticket`` names the gradient or the delivery, ``length`` counts payload bytes that follow on the socket.

    Without any, the payload is in the shared buffers, parameters in ``slot``.
    """

    kind: int
    generation: int
    ticket: int
    version: int
    length: int
    slot: int


def pack(kind: int, generation: int, ticket: int, version: int, length: int, slot: int = 0) -> bytes:
    """64 bytes."""
    return _HEADER.pack(MAGIC, kind, generation, ticket, version, length, slot).ljust(HEADER_BYTES, b"\0")


def unpack(data: bytes | bytearray | memoryview) -> Header:
    """Raises ``ConnectionError`` for anything that is not our header."""
    magic, kind, generation, ticket, version, length, slot = _HEADER.unpack_from(data)
    if magic != MAGIC or not PUSH <= kind <= PARAMS:
        raise ConnectionError("a frame with an unknown header is refused")
    return Header(kind, generation, ticket, version, length, slot)


def as_bytes(vector: FloatVector) -> memoryview:
    """The vector's memory, writable."""
    return memoryview(vector).cast("B")  # type: ignore[arg-type]
