"""Performance scores as in NVIDIA's Resiliency Extension (NVRx)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from predictors.recent import Recent
from predictors.stragglers import Observation
from reading.ranges import PositiveFrac, PositiveInt, check_settings

SCORES = ("relative", "individual", "both")
Floats = np.ndarray[Any, np.dtype[np.float64]]


@final
@dataclass(kw_only=True)
class Nvrx:
    """Tags workers whose score, reference time / own median time (1 is best), is below ``threshold``.

    Source: github.com/NVIDIA/nvidia-resiliency-ext, straggler/reporting.py (the scores of a timed section) and the
    usage guide of its straggler detection. The *relative* score uses the smallest median of all ranks as its reference,
    the *individual* one the smallest median that the rank itself has had so far. The threshold is 0.7 in the example of
    its Lightning callback and in Megatron Bridge; ``identify_stragglers`` itself has 0.75.

    Departures: the timed section is a whole iteration, without waiting. NVRx reports every few minutes on what it timed
    since the last report; here medians cover the last ``window_iters`` iterations and scores are updated after each.
    NVRx lists ranks separately by either score; ``both`` tags those in either list. There are no kernels, so there is
    no GPU score.

    Attributes:
        threshold: between 0 and 1; 0.7 is 43 % slower than the reference.
        window_iters: a worker's time is the median of this many iterations.
        scores: ``relative``, ``individual`` or ``both``.
    """

    reads_time: ClassVar[bool] = False
    threshold: PositiveFrac = 0.7
    window_iters: PositiveInt = 10
    scores: str = "both"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.scores not in SCORES:
            raise ValueError(f"scores={self.scores}: must be one of {', '.join(SCORES)}")
        self._recent = Recent(self.window_iters)
        self._own_s, self._best_s = np.full((2, 0), np.nan)

    def update(self, observation: Observation) -> None:
        """Add the iteration to its worker's window; only a full window is a reference, to ignore a lucky iteration."""
        worker = observation.worker
        full = self._recent.add(observation) == self.window_iters
        if worker >= len(self._own_s):
            more = np.full(worker + 1, np.nan)
            self._own_s, self._best_s = np.append(self._own_s, more), np.append(self._best_s, more)
        self._own_s[worker] = median_s = self._recent.median_s[worker]
        if full and not median_s >= self._best_s[worker]:
            self._best_s[worker] = median_s

    def forget(self, worker: int) -> None:
        self._recent.forget(worker)
        self._own_s[worker : worker + 1] = self._best_s[worker : worker + 1] = np.nan

    def relative(self) -> Floats:
        """[workers]: smallest median of all workers / own median; NaN without a median, or if nobody else has one."""
        if len(self._recent.median_s) < 2:
            return np.full_like(self._own_s, np.nan)
        scores: Floats = np.fmin.reduce(self._own_s) / self._own_s
        return scores

    def individual(self) -> Floats:
        """[workers]: own smallest median so far / own current median; NaN until the worker's window has been full."""
        scores: Floats = self._best_s / self._own_s
        return scores

    def tags(self, t: float) -> frozenset[int]:
        """Workers whose score is below the threshold now; none while there is only one worker."""
        if len(self._recent.median_s) < 2:
            return frozenset()
        slow = np.zeros(len(self._own_s), dtype=bool)
        if self.scores != "individual":
            slow |= self.relative() < self.threshold
        if self.scores != "relative":
            slow |= self.individual() < self.threshold
        return frozenset(np.flatnonzero(slow).tolist())
