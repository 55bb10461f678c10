"""Modes of a ring: workers that leave it, parents' waits for children, an update's time (IV-B; pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import NamedTuple, final

NEWEST = 50
"""Gradients over whose overheads the median is taken."""


@final
class RingOverhead:
    """Seconds between an update and a member's next gradient besides loading and computing: sum, step, orders."""

    def __init__(self) -> None:
        self._updated_s: float | None = None
        self._newest_s = deque[float](maxlen=NEWEST)

    def note_update(self, t: float) -> None:
        """An update was made at time ``t``."""
        self._updated_s = t

    def interrupt(self) -> None:
        """Times until the next update do not count: they contain a pause, or the start of processes."""
        self._updated_s = None

    def arrived(self, t: float, computed_s: float) -> None:
        """Take the time of a gradient of the ring, computed in ``computed_s`` since the last update."""
        if self._updated_s is not None:
            self._newest_s.append(max(0.0, t - self._updated_s - computed_s))

    @property
    def seconds(self) -> float:
        """The median of the newest; 0 before there is any."""
        return median(self._newest_s) if self._newest_s else 0.0


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
    """All modes with up to all tagged workers apart, the fewest and the shortest wait first; at least one stays."""
    slowest = sorted(tagged, key=lambda worker: (times_s[worker], worker), reverse=True)[: len(times_s) - 1]
    counts = range(1, len(slowest) + 1)
    return [WHOLE, *(RingMode(tuple(slowest[:count]), wait_s) for count in counts for wait_s in sorted(waits_s))]


def check_waits(waits_s: object) -> None:
    """Raise ``ValueError`` unless these are one or more different numbers of seconds."""
    if isinstance(waits_s, str) or not isinstance(waits_s, Sequence) or not waits_s:
        raise ValueError(f"waits_s={waits_s}: must be a list of one or more numbers of seconds")
    if len(set(waits_s)) < len(waits_s):
        raise ValueError(f"waits_s={list(waits_s)}: must be different numbers")
