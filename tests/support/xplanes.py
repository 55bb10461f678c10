"""Profiles in the form of TensorFlow and JAX, encoded by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MILLI_IN_PICO = 10**9


class Event(NamedTuple):
    """An event in milliseconds since its line began; ``step``: the statistic ``step_num``."""

    name: str
    begin_ms: float
    length_ms: float
    step: int | None = None


Lines = Mapping[str, Sequence[Event]]


def profile(planes: Mapping[str, Lines], begin_ns: int = 1_790_000_000_123_456_789) -> bytes:
    """A profile whose planes, such as ``/host:CPU`` and ``/device:GPU:0``, have these lines."""
    return b"".join(_field(1, _plane(name, lines, begin_ns)) for name, lines in planes.items())


def _plane(name: str, lines: Lines, begin_ns: int) -> bytes:
    names = sorted({event.name for events in lines.values() for event in events})
    numbers = {one: number for number, one in enumerate(names, 1)}
    parts = [_field(2, name)]
    for line, events in lines.items():
        content = [_field(2, line), _field(3, begin_ns)]
        for event in events:
            times = (round(ms * MILLI_IN_PICO) for ms in (event.begin_ms, event.length_ms))
            fields = [_field(number, value) for number, value in enumerate((numbers[event.name], *times), 1)]
            if event.step is not None:
                fields.append(_field(4, _field(1, 77) + _field(4, event.step)))
            content.append(_field(4, b"".join(fields)))
        parts.append(_field(3, b"".join(content)))
    for one, number in numbers.items():
        parts.append(_field(4, _field(1, number) + _field(2, _field(1, number) + _field(2, one))))
    parts.append(_field(5, _field(1, 77) + _field(2, _field(1, 77) + _field(2, "step_num"))))
    return b"".join(parts)


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
