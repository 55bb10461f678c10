"""Change points of each worker's own times: slower than it has been itself."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, median
from typing import ClassVar, final

import numpy as np
from scipy.special import gammaln

from predictors.stragglers import Observation
from reading.ranges import NonNegativeFloat, PositiveFrac, PositiveInt, check_settings

LEAST_PROBABILITY = 1e-6
"""Run lengths that are less probable are dropped."""
PRIOR_COUNT, PRIOR_FREEDOM, PRIOR_DEVIATION = 0.1, 1.0, 0.02
"""A new level is unknown; its noise is some two per cent of the first time."""


class RunLengths:
    """The posterior of the number of values since the last change (Adams and MacKay, arXiv 0710.3742, algorithm 1).

    Values are normal with unknown mean and variance (a normal-gamma prior), so predictions are Student's t.

    ``lengths``, ``log_p``: run lengths that are still probable, and their log probabilities.
    """

    def __init__(self, first: float, hazard: float) -> None:
        self._log_change, self._log_stay = np.log(hazard), np.log1p(-hazard)
        self._prior = (first, PRIOR_COUNT, PRIOR_FREEDOM, PRIOR_FREEDOM * (PRIOR_DEVIATION * first) ** 2)
        self.lengths = np.zeros(1, dtype="int64")
        self.log_p = np.zeros(1)
        self._mean, self._count, self._freedom, self._scale = (np.array([one]) for one in self._prior)

    def add(self, value: float) -> None:
        """Update the posterior by the next value."""
        predicted = self.log_p + self._log_density(value)
        grown, changed = predicted + self._log_stay, np.logaddexp.reduce(predicted) + self._log_change
        log_p = np.concatenate([[changed], grown])
        log_p -= np.logaddexp.reduce(log_p)
        count = self._count + 1
        scale = self._scale + self._count * (value - self._mean) ** 2 / (2 * count)
        mean = (self._count * self._mean + value) / count
        prior = self._prior
        kept = log_p > np.log(LEAST_PROBABILITY)
        self.log_p = log_p[kept]
        self.lengths = np.concatenate([[0], self.lengths + 1])[kept]
        self._mean = np.concatenate([[prior[0]], mean])[kept]
        self._count = np.concatenate([[prior[1]], count])[kept]
        self._freedom = np.concatenate([[prior[2]], self._freedom + 0.5])[kept]
        self._scale = np.concatenate([[prior[3]], scale])[kept]

    def _log_density(self, value: float) -> np.ndarray:
        """Log density of Student's t with 2 alpha degrees of freedom, by run length."""
        freedom = 2 * self._freedom
        square = self._scale * (self._count + 1) / (self._freedom * self._count)
        standard = (value - self._mean) ** 2 / square
        constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - np.log(freedom * np.pi * square) / 2
        return np.asarray(constant - (freedom + 1) / 2 * np.log1p(standard / freedom))

    @property
    def likeliest(self) -> int:
        """The most probable run length."""
        return int(self.lengths[int(self.log_p.argmax())])


@final
@dataclass(kw_only=True)
class ChangePoint:
    """Tags workers whose times have changed to a level well above their best one and above the other workers'.

    Source: Greyhound (ATC 2025; github.com/wutianyuan1/Greyhound): Bayesian online detection of change points in the
    iteration time, and a change counts from 10 iterations and 10 % on. Greyhound finds the period of an unlabelled
    series of collective calls by autocorrelation first. After a change it pauses the job and tests all nodes: those
    whose computing takes more than 1.1 times the median are slow. Here iterations are known, every worker's own time is
    a series, and its present level takes the place of the test. A single slow iteration is an outlier, as there.

    Attributes:
        least_frac: how much slower than its best level, and than the median worker's present level, a worker is.
        level_iters: iterations of a level that later ones are compared with, at least.
        confirm_iters: iterations after a change, at least.
        hazard: probability of a change before each iteration.
    """

    reads_time: ClassVar[bool] = False
    least_frac: NonNegativeFloat = 0.1
    level_iters: PositiveInt = 10
    confirm_iters: PositiveInt = 2
    hazard: PositiveFrac = 0.004

    def __post_init__(self) -> None:
        check_settings(self)
        self._runs: dict[int, RunLengths] = {}
        self._times: dict[int, deque[float]] = {}
        self._best_s: dict[int, float] = {}
        self._level_s: dict[int, float] = {}
        self._slow: set[int] = set()

    def update(self, observation: Observation) -> None:
        """Add an iteration, and compare its worker's present level with its best."""
        worker, seconds = observation.worker, observation.iter_s
        if worker not in self._runs:
            self._runs[worker] = RunLengths(seconds, self.hazard)
            self._times[worker] = deque(maxlen=1000)
        run, times = self._runs[worker], self._times[worker]
        run.add(seconds)
        times.append(seconds)
        length = min(max(run.likeliest, 1), len(times))
        self._level_s[worker] = level_s = fmean(islice(reversed(times), length))
        best_s = self._best_s.get(worker)
        if length >= self.level_iters and (best_s is None or level_s < best_s):
            self._best_s[worker] = best_s = level_s
        if best_s is not None and length >= self.confirm_iters and level_s > (1 + self.least_frac) * best_s:
            self._slow.add(worker)
        elif length >= self.confirm_iters:
            self._slow.discard(worker)

    def forget(self, worker: int) -> None:
        for known in (self._runs, self._times, self._best_s, self._level_s):
            known.pop(worker, None)
        self._slow.discard(worker)

    def tags(self, t: float) -> frozenset[int]:
        """Workers on a slow level now, in comparison with the others, too."""
        if not self._slow or len(self._level_s) < 2:
            return frozenset()
        bound_s = (1 + self.least_frac) * median(self._level_s.values())
        return frozenset(worker for worker in self._slow if self._level_s[worker] > bound_s)
