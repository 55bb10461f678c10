"""Taking a part of a device's time (pure): how many processes that needs, and when each may run its next kernel.

Without MPS, processes use a device one after another, in time slices (NVIDIA, "Multi-Process Service", on when to use
it); the model is that turns are equal as long as each has work. Next to m processes that always have work, k others can
have k / (m + k) of its time and no more. To leave the part L they must have 1 - L, so k >= m (1 - L) / L.
"""

from __future__ import annotations

import math
from typing import final

MOST_HOGS = 24
"""Processes per device: each has a context of some hundred megabytes there."""
CREDIT_S = 0.25
"""A hog may make up for turns that it missed within this time because of others; older claims are forfeited."""


def hogs_for(left_frac: float, sharers: int) -> int:
    """Processes that together can leave ``left_frac`` of a device to ``sharers`` processes that always have work."""
    return max(1, math.ceil(sharers * (1.0 - left_frac) / left_frac - 1e-9))


def least_left(sharers: int, hogs: int = MOST_HOGS) -> float:
    """The smallest part that so many hogs can leave."""
    return sharers / (sharers + hogs)


@final
class Duty:
    """A hog's account of device seconds: it takes ``share`` of the time since ``now``, on average. Pure."""

    def __init__(self, share: float, now: float) -> None:
        self.share, self.begun_s, self.used_s = share, now, 0.0
        self._balance_s, self._settled_s = 0.0, now

    def spent(self, now: float, used_s: float) -> float:
        """Book a kernel that has used the device for ``used_s``; returns the seconds until the next one is due."""
        earned_s = self._balance_s + self.share * (now - self._settled_s)
        self._balance_s = min(earned_s, self.share * CREDIT_S) - used_s
        self._settled_s = now
        self.used_s += used_s
        return max(0.0, -self._balance_s / self.share) if self.share else math.inf

    def taken_frac(self, now: float) -> float:
        """The part of the device's time that it has really used so far."""
        return self.used_s / (now - self.begun_s) if now > self.begun_s else 0.0
