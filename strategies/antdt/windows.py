"""A sliding window of seconds over pairs of numbers, with their sums (pure)."""

from __future__ import annotations

from collections import deque
from typing import final


@final
class Window:
    """Pairs (x, y) of the last ``length_s`` seconds with their sums; O(1) amortised per record.

    The newest ``least`` records stay whatever their age: where records are further apart than the window is long, they
    are all that is known.
    """

    def __init__(self, length_s: float, least: int = 0) -> None:
        self.length_s, self.least = length_s, least
        self.records: deque[tuple[float, float, float]] = deque()
        self.sum_x = self.sum_y = 0.0

    def push(self, t: float, x: float, y: float) -> None:
        """Add a record of time ``t``, which never decreases."""
        self.records.append((t, x, y))
        self.sum_x += x
        self.sum_y += y
        self.expire(t)

    def expire(self, t: float) -> int:
        """Remove records older than the window at time ``t``; return the number left."""
        records, oldest = self.records, t - self.length_s
        while len(records) > self.least and records[0][0] < oldest:
            _, x, y = records.popleft()
            self.sum_x -= x
            self.sum_y -= y
        if not records:
            self.sum_x = self.sum_y = 0.0  # clear the rounding errors of the sums, too
        return len(records)
