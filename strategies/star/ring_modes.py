"""The modes of a ring: who leaves it, and how long parents wait for their children (section IV-B; pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from strategies.parts.checks import check_number

WAITS_S = (0.0, 0.03, 0.06, 0.09, 0.12, 0.15, 0.18, 0.21)
"""Candidates: STAR's 30 to 210 ms, and parents that do not wait."""


class RingMode(NamedTuple):
    """The workers outside of the ring, slowest first, and the seconds that their parents wait."""

    apart: tuple[int, ...]
    wait_s: float

    def __str__(self) -> str:
        if not self.apart:
            return "ring of all"
        return f"ring without {' '.join(map(str, self.apart))}, wait {self.wait_s:g} s"


WHOLE = RingMode((), 0.0)


def candidates(times_s: Mapping[int, float], tagged: Collection[int], waits_s: Sequence[float]) -> list[RingMode]:
    """All modes with up to all tagged workers apart, the fewest and the shortest wait first; somebody stays."""
    slowest = sorted(tagged, key=lambda worker: (times_s[worker], worker), reverse=True)[: len(times_s) - 1]
    counts = range(1, len(slowest) + 1)
    return [WHOLE, *(RingMode(tuple(slowest[:count]), wait_s) for count in counts for wait_s in sorted(waits_s))]


def check_waits(waits_s: object) -> None:
    """Raise ``ValueError`` unless these are one or more different numbers of seconds."""
    if isinstance(waits_s, str) or not isinstance(waits_s, Sequence) or not waits_s:
        raise ValueError(f"waits_s={waits_s}: must be a list of one or more numbers of seconds")
    for wait_s in waits_s:
        check_number("waits_s", wait_s, 0.0)
    if len(set(waits_s)) < len(waits_s):
        raise ValueError(f"waits_s={list(waits_s)}: must be different numbers")
