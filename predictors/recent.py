"""The last few iterations of every worker, and their medians."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import final

from predictors.stragglers import Seen


@final
class Recent:
    """``median_s``: of the last ``window_iters`` times (or of fewer, so far) of every worker that is there, seconds."""

    def __init__(self, window_iters: int) -> None:
        self.window_iters = window_iters
        self.median_s: dict[int, float] = {}
        self._times: dict[int, deque[float]] = {}

    def add(self, seen: Seen) -> int:
        """The newest; how many of its worker there are now."""
        times = self._times.setdefault(seen.worker, deque(maxlen=self.window_iters))
        times.append(seen.iter_s)
        self.median_s[seen.worker] = median(times)
        return len(times)

    def gone(self, worker: int) -> None:
        """Forget it."""
        self._times.pop(worker, None)
        self.median_s.pop(worker, None)
