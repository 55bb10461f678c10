"""The reference of a quota in ``runtime/virtual/compiled``: a token bucket, which a caller opens at any time."""

from __future__ import annotations

from math import inf

from runtime.virtual.machines.quotas import Quota

EMPTY_S = 1e-9
"""Core-seconds that rounding may leave in an empty bucket."""


class Bucket:
    """A quota in use, which begins with a full bucket."""

    def __init__(self, quota: Quota, now_s: float) -> None:
        self.cores, self.depth_s = quota
        self._left_s, self._used, self._since_s = quota.depth_s, 0.0, now_s

    def open(self, now_s: float) -> bool:
        """Book the use until now; returns whether anything is left."""
        left_s = self._left_s + (self.cores - self._used) * (now_s - self._since_s)
        left_s = 0.0 if left_s < 0.0 else min(self.depth_s, left_s)
        if self._used > self.cores and now_s + left_s / (self._used - self.cores) == now_s:
            left_s = 0.0  # used up sooner than a float can tell
        self._left_s, self._since_s = left_s, now_s
        return left_s > EMPTY_S

    def use(self, cores: float) -> float:
        """Use ``cores`` from now on; returns when the bucket will be empty."""
        self._used = cores
        if self._left_s <= EMPTY_S or cores <= self.cores:
            return inf
        return self._since_s + self._left_s / (cores - self.cores)
