"""The last few iterations of every worker, and their medians."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import ClassVar, final

from predictors.stragglers import Observation
from reading.ranges import PositiveInt, check_settings


@final
class Recent:
    """Medians of the last ``window_iters`` iteration times of every worker.

    ``median_s``: seconds, by worker; over fewer iterations while there are fewer.
    """

    def __init__(self, window_iters: int) -> None:
        self.median_s: dict[int, float] = {}
        self._times = defaultdict[int, deque[float]](partial(deque, maxlen=window_iters))

    def add(self, observation: Observation) -> int:
        """Add an iteration; returns how many of its worker's iterations are in the window now."""
        times = self._times[observation.worker]
        times.append(observation.iter_s)
        self.median_s[observation.worker] = median(times)
        return len(times)

    def forget(self, worker: int) -> None:
        """Discard the worker's window, since its process was lost."""
        self._times.pop(worker, None)
        self.median_s.pop(worker, None)


@dataclass(kw_only=True)
class ByRecent:
    """A straggler predictor by the workers' medians of the last ``window_iters`` iterations."""

    reads_time: ClassVar[bool] = False
    window_iters: PositiveInt = 10

    def __post_init__(self) -> None:
        check_settings(self)
        self._recent = Recent(self.window_iters)

    def update(self, observation: Observation) -> None:
        """Add the iteration to its worker's window."""
        self._recent.add(observation)

    def forget(self, worker: int) -> None:
        self._recent.forget(worker)
