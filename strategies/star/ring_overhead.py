"""What an update of a ring takes besides its members' computing, measured (pure)."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import final

NEWEST = 50
"""Gradients over whose overheads the median is taken."""


@final
class RingOverhead:
    """Seconds between an update and a member's next gradient besides loading and computing: sum, step, orders."""

    def __init__(self) -> None:
        self._updated_s: float | None = None
        self._newest_s = deque[float](maxlen=NEWEST)

    def updated(self, t: float) -> None:
        """An update was made at time ``t``."""
        self._updated_s = t

    def interrupted(self) -> None:
        """What is measured until the next update is something else: a pause, or processes that begin."""
        self._updated_s = None

    def arrived(self, t: float, computed_s: float) -> None:
        """A gradient of a member of the ring, who computed for so long since the last update."""
        if self._updated_s is not None:
            self._newest_s.append(max(0.0, t - self._updated_s - computed_s))

    @property
    def seconds(self) -> float:
        """The median of the newest; 0 before there is any."""
        return median(self._newest_s) if self._newest_s else 0.0
