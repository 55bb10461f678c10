"""Change points of each worker's own times: slower than it has been itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
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

    Values are normal with unknown mean and variance (a normal-gamma prior), so predictions are Student's t. There are
    many series at once, by number; the first value of a series sets its prior.

    ``series``, ``lengths``, ``log_p``: the run lengths that are still probable, series by series and from the shortest
    on, and their log probabilities.
    """

    def __init__(self, hazard: float) -> None:
        self._log_change, self._log_stay = np.log(hazard), np.log1p(-hazard)
        self._first: dict[int, float] = {}
        self.series, self.lengths = np.zeros(0, dtype="int64"), np.zeros(0, dtype="int64")
        self.log_p, self._mean, self._scale = np.zeros(0), np.zeros(0), np.zeros(0)

    def add(self, values: Mapping[int, float]) -> dict[int, int]:
        """Update the posteriors of these series by their next values; returns their most probable run lengths."""
        for one, value in values.items():
            if one not in self._first:
                self._first[one] = value
                self._insert(np.array([one]), np.zeros(1))
        mine = np.isin(self.series, list(values))
        series, lengths, old_mean, old_scale = (
            column[mine] for column in (self.series, self.lengths, self._mean, self._scale)
        )
        numbers, starts, sizes = np.unique(series, return_index=True, return_counts=True)
        new = np.repeat([values[one] for one in numbers.tolist()], sizes)
        count = PRIOR_COUNT + lengths
        predicted = self.log_p[mine] + _log_density(new - old_mean, lengths, old_scale)
        total = np.logaddexp.reduceat(predicted, starts)  # of changed and grown together, as the hazard adds up to 1
        rest = tuple(column[~mine] for column in (self.series, self.lengths, self.log_p, self._mean, self._scale))
        grown = (
            *(series, lengths + 1, predicted + self._log_stay - np.repeat(total, sizes)),
            *(
                (count * old_mean + new) / (count + 1),
                old_scale + count * (new - old_mean) ** 2 / (2 * (count + 1)),
            ),
        )
        kept = grown[2] > np.log(LEAST_PROBABILITY)
        self.series, self.lengths, self.log_p, self._mean, self._scale = (
            np.concatenate([others, column[kept]]) for others, column in zip(rest, grown, strict=True)
        )
        self._insert(numbers, np.full(len(numbers), self._log_change))
        return self._likeliest(numbers)

    def forget(self, one: int) -> None:
        """Discard a series; its next value is a first one."""
        self._first.pop(one, None)
        kept = self.series != one
        self.series, self.lengths, self.log_p, self._mean, self._scale = (
            column[kept] for column in (self.series, self.lengths, self.log_p, self._mean, self._scale)
        )

    def _insert(self, numbers: np.ndarray, log_p: np.ndarray) -> None:
        """Add a run of length 0 to each of these series."""
        first = np.array([self._first[one] for one in numbers.tolist()])
        new = (numbers, np.zeros(len(numbers), "int64"), log_p, first, PRIOR_FREEDOM * (PRIOR_DEVIATION * first) ** 2)
        columns = (self.series, self.lengths, self.log_p, self._mean, self._scale)
        whole = [np.concatenate([added, column]) for added, column in zip(new, columns, strict=True)]
        order = np.lexsort((whole[1], whole[0]))
        self.series, self.lengths, self.log_p, self._mean, self._scale = (column[order] for column in whole)

    def _likeliest(self, numbers: np.ndarray) -> dict[int, int]:
        mine = np.isin(self.series, numbers)
        series, lengths, log_p = self.series[mine], self.lengths[mine], self.log_p[mine]
        order = np.lexsort((lengths, -log_p, series))  # by series, the most probable first
        found, places = np.unique(series[order], return_index=True)
        return dict(zip(found.tolist(), lengths[order][places].tolist(), strict=True))


def _log_density(deviation: np.ndarray, lengths: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Log density of Student's t with 2 alpha degrees of freedom, by run length."""
    freedom, count = 2 * PRIOR_FREEDOM + lengths, PRIOR_COUNT + lengths
    square = 2 * scale * (count + 1) / (freedom * count)
    sizes = np.arange(lengths.max(initial=0) + 1) + 2 * PRIOR_FREEDOM
    constant = gammaln((sizes + 1) / 2) - gammaln(sizes / 2) - np.log(sizes * np.pi) / 2
    spread = np.log(square) / 2 + (freedom + 1) / 2 * np.log1p(deviation**2 / square / freedom)
    return np.asarray(constant[lengths] - spread)


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
        self._runs = RunLengths(self.hazard)
        self._new: dict[int, float] = {}
        self._times: dict[int, deque[float]] = {}
        self._best_s: dict[int, float] = {}
        self._level_s: dict[int, float] = {}
        self._slow: set[int] = set()

    def update(self, observation: Observation) -> None:
        """Keep an iteration until its worker has another or somebody asks: all workers are added at once."""
        if observation.worker in self._new:
            self._add()
        self._new[observation.worker] = observation.iter_s

    def forget(self, worker: int) -> None:
        self._add()
        self._runs.forget(worker)
        for known in (self._times, self._best_s, self._level_s):
            known.pop(worker, None)
        self._slow.discard(worker)

    def tags(self, t: float) -> frozenset[int]:
        """Workers on a slow level now, in comparison with the others, too."""
        self._add()
        if not self._slow or len(self._level_s) < 2:
            return frozenset()
        bound_s = (1 + self.least_frac) * median(self._level_s.values())
        return frozenset(worker for worker in self._slow if self._level_s[worker] > bound_s)

    def _add(self) -> None:
        """Add the new iterations, and compare their workers' present levels with their best."""
        new, self._new = self._new, {}
        for worker, likeliest in self._runs.add(new).items() if new else ():
            times = self._times.setdefault(worker, deque(maxlen=1000))
            times.append(new[worker])
            length = min(max(likeliest, 1), len(times))
            self._level_s[worker] = level_s = fmean(
                list(islice(reversed(times), length))
            )  # of a list: it need not be counted
            best_s = self._best_s.get(worker)
            if length >= self.level_iters and (best_s is None or level_s < best_s):
                self._best_s[worker] = best_s = level_s
            if best_s is not None and length >= self.confirm_iters and level_s > (1 + self.least_frac) * best_s:
                self._slow.add(worker)
            elif length >= self.confirm_iters:
                self._slow.discard(worker)
