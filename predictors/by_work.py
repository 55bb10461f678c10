"""Slower than the iteration's own work explains."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import ClassVar, final

import numpy as np

from predictors.stragglers import ROUNDING, STRAGGLER_FRAC, Observation
from reading.ranges import NonNegativeFloat, PositiveInt, check_settings


@final
@dataclass(kw_only=True)
class ByWork:
    """Tags workers whose times exceed what their work predicts by more than ``tolerance_frac``.

    Source: ResiHP (arXiv 2605.06374) accuses a rank only if its time exceeds the one predicted from its sequences'
    lengths. Here time = a + b work, fitted by least squares to the last iterations of all workers (``fit_iters`` of
    each, and only those up to the median residual count in a second fit, so that stragglers do not explain themselves).
    A worker's residual is the median over ``window_iters`` iterations.

    Attributes:
        tolerance_frac: residual as a part of the predicted time.
        window_iters: iterations of a residual.
        fit_iters: iterations of each worker in the fit.
    """

    reads_time: ClassVar[bool] = False
    tolerance_frac: NonNegativeFloat = STRAGGLER_FRAC
    window_iters: PositiveInt = 3
    fit_iters: PositiveInt = 20

    def __post_init__(self) -> None:
        check_settings(self)
        self._seen: dict[int, deque[tuple[float, float]]] = {}
        self._fracs: dict[int, float] = {}
        self._line = (0.0, 0.0)
        self._unfitted = 0

    def update(self, observation: Observation) -> None:
        """Keep an iteration's work and time."""
        worker, work = observation.worker, observation.work if isfinite(observation.work) else observation.samples
        self._seen.setdefault(worker, deque(maxlen=self.fit_iters)).append((work, observation.iter_s))
        self._unfitted += 1
        self._fracs[worker] = self._residual_frac(worker)

    def forget(self, worker: int) -> None:
        self._seen.pop(worker, None)
        self._fracs.pop(worker, None)

    def residual_fracs(self) -> dict[int, float]:
        """(time - predicted) / predicted of each worker: the median over its window; fitted again after every round."""
        if self._seen and self._unfitted >= len(self._seen):
            rows = np.array([row for seen in self._seen.values() for row in seen])
            intercept, slope = _line(rows)
            residuals = np.abs(rows[:, 1] - intercept - slope * rows[:, 0])
            self._line = _line(rows[residuals <= np.median(residuals) * (1 + ROUNDING)])
            self._unfitted = 0
            self._fracs = {worker: self._residual_frac(worker) for worker in self._seen}
        return self._fracs

    def _residual_frac(self, worker: int) -> float:
        intercept, slope = self._line
        last = list(self._seen[worker])[-self.window_iters :]
        return median(
            seconds / expected - 1 if (expected := intercept + slope * work) > 0 else 0.0 for work, seconds in last
        )

    def tags(self, t: float) -> frozenset[int]:
        """Workers above the tolerance now."""
        if len(self._seen) < 2:
            return frozenset()
        bound = self.tolerance_frac + ROUNDING
        return frozenset(worker for worker, frac in self.residual_fracs().items() if frac > bound)


def _line(rows: np.ndarray) -> tuple[float, float]:
    """Intercept and slope by least squares; the mean where all work is equal, and no negative slope."""
    work, seconds = rows[:, 0], rows[:, 1]
    spread = float(np.var(work))
    slope = (
        float(np.cov(work, seconds, bias=True)[0, 1]) / spread if spread > 1e-12 * float(np.mean(work)) ** 2 else 0.0
    )
    slope = max(slope, 0.0)
    return float(np.mean(seconds)) - slope * float(np.mean(work)), slope
