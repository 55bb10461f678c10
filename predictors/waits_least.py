"""The culprit of a barrier is who waits least."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_high
from typing import ClassVar, final

from predictors.stragglers import Observation
from reading.ranges import NonNegativeFloat, check_settings


@final
@dataclass(kw_only=True)
class WaitsLeast:
    """Tags the one worker for which all others wait, if their wait is worth mentioning.

    Source: TraceML (github.com/traceopt-ai/traceml): where an all-reduce makes all backward times equal, the rank with
    the shortest arrived last and waited least, so it is the culprit; the visible cost is how much longer the (upper)
    median rank waited. Here a worker's wait is how much shorter its own iteration is than the slowest.

    Attributes:
        least_frac: the median worker's wait as a part of the slowest worker's iteration, at least.
    """

    reads_time: ClassVar[bool] = False
    least_frac: NonNegativeFloat = 0.1

    def __post_init__(self) -> None:
        check_settings(self)
        self._last_s: dict[int, float] = {}

    def update(self, observation: Observation) -> None:
        self._last_s[observation.worker] = observation.iter_s

    def forget(self, worker: int) -> None:
        self._last_s.pop(worker, None)

    def tags(self, t: float) -> frozenset[int]:
        """The culprit of the last iterations, or nobody."""
        if len(self._last_s) < 2:
            return frozenset()
        culprit = max(self._last_s, key=lambda worker: self._last_s[worker])
        longest_s = self._last_s[culprit]
        wait_s = median_high([longest_s - own_s for own_s in self._last_s.values()])
        return frozenset({culprit}) if wait_s > self.least_frac * longest_s else frozenset()
