"""When transient stragglers are slow: during part of some periods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

from injectors.patterns.fields import check_number, count_slots
from injectors.patterns.streams import stream

Offset = Literal["start", "uniform"]
OFFSETS = ("start", "uniform")


@final
@dataclass(frozen=True, kw_only=True)
class Periods:
    """In every period, each target straggles with some probability, for part of the period.

    Draws depend only on their key: a target that straggles at a smaller probability also straggles at a larger one, and
    a longer horizon extends a shorter one. The patterns that have periods explain the fields.
    """

    period_s: float
    duration_s: float
    probability: float
    offset: Offset

    def __post_init__(self) -> None:
        check_number("period_s", self.period_s, least=0.001)
        check_number("duration_s", self.duration_s, above=0)
        if self.duration_s > self.period_s:
            raise ValueError(f"duration_s={self.duration_s}: must be at most period_s ({self.period_s})")
        check_number("probability", self.probability, least=0, most=1)
        if self.offset not in OFFSETS:
            raise ValueError(f"offset={self.offset}: must be one of {', '.join(OFFSETS)}")

    def count(self, horizon_s: float, num_targets: int) -> int:
        """Number of periods that begin within the horizon; an absurd number is refused."""
        return count_slots("period_s", self.period_s, horizon_s, num_targets, self.probability)

    def windows(self, count: int, seed: int, name: str, target: str) -> Iterator[tuple[float, float]]:
        """(start, end) in seconds of the straggling parts among the first ``count`` periods of ``target``."""
        # both columns are always drawn, so that changing one field does not change the other's draws
        draws = stream(seed, name, target).random((count, 2))
        for period in (draws[:, 0] < self.probability).nonzero()[0].tolist():
            spare_s = self.period_s - self.duration_s if self.offset == "uniform" else 0.0
            start_s = period * self.period_s + spare_s * float(draws[period, 1])
            yield start_s, start_s + self.duration_s
