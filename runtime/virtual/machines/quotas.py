"""Processor quotas as the kernel enforces them: an amount per period, which may be used at full speed (pure)."""

from __future__ import annotations

from math import inf

from runtime.cluster.hosts import USUAL_PERIOD_S

LEAST_S = 1e-3
"""The kernel accepts no smaller quota; a smaller share has a longer period instead."""
EMPTY_S = 1e-9
"""Core-seconds that rounding may leave in an empty bucket."""


def depth_s(cores: float, period_s: float) -> float:
    """Core-seconds that an average of ``cores`` may use at once: the quota of one period."""
    return max(cores * period_s, LEAST_S) if cores else 0.0


class Quota:
    """A token bucket: unused quota is kept, up to the quota of one period.

    The kernel refills it at the end of every period, this model continuously: after a pause of g, work of c
    core-seconds under q cores takes (c - min(q g, depth)) / q if it is long, and c if it is short. Live runs keep to it
    where the kernel is made to look often enough (:mod:`runtime.live.machines.ticks`).
    """

    def __init__(self, cores: float, now_s: float, period_s: float = USUAL_PERIOD_S) -> None:
        self.cores = cores
        self.depth_s = self._left_s = depth_s(cores, period_s)
        self._used, self._since_s = 0.0, now_s

    def open(self, now_s: float) -> bool:
        """Book the use until now; returns whether anything is left."""
        left_s = self._left_s + (self.cores - self._used) * (now_s - self._since_s)
        left_s = 0.0 if left_s < 0.0 else min(self.depth_s, left_s)
        if self._used > self.cores and now_s + left_s / (self._used - self.cores) == now_s:
            left_s = 0.0  # used up sooner than a float can tell, which late in a long run is more than rounding leaves
        self._left_s, self._since_s = left_s, now_s
        return left_s > EMPTY_S

    def use(self, cores: float) -> float:
        """Use ``cores`` from now on; returns when the bucket will be empty."""
        self._used = cores
        if self._left_s <= EMPTY_S or cores <= self.cores:
            return inf
        return self._since_s + self._left_s / (cores - self.cores)
