"""Linear autoregression with the worker's resources as inputs (ARX)."""

from __future__ import annotations

from typing import final

import numpy as np

from predictors.base import SpeedRecord
from predictors.history import REGRESSORS, Floats, History, mean_of, standardised

MIN_ROWS = len(REGRESSORS) + 2
"""Minimum table rows for a fit, more than there are unknowns; with fewer rows the last value is returned instead."""


@final
class Arx:
    """v(t+1) = a1 v(t) + a2 v(t-1) + c1 c(t+1) + c2 c(t) + m1 m(t+1) + m2 m(t) + b, by ridge regression.

    The linear version of LB-BSP's NARX network, and its fallback while the network has too few records. If the newest
    speed is unlike everything in the fitted window, it is predicted to last.

    Args:
        window: number of records to learn from.
        ridge: penalty on the standardised coefficients; it only keeps constant inputs from making the fit singular.
        refit_every: records between two fits.
    """

    def __init__(self, window: int = 200, ridge: float = 1e-6, refit_every: int = 5) -> None:
        self.refit_every = refit_every
        self._history, self._penalty = History(window), ridge * np.eye(len(REGRESSORS))
        self._fitted_at: int | None = None
        self._coefficients: Floats = np.zeros(len(REGRESSORS))
        self._intercept = 0.0

    @property
    def records(self) -> int:
        """Number of records received so far."""
        return self._history.count

    def update(self, record: SpeedRecord) -> None:
        """Store the record; refitting is deferred to the next prediction."""
        self._history.add(record)

    def predict(self, cpu: float = 1.0, memory: float = 1.0) -> float:
        """Value of the fitted line, or the last speed if there is no fit yet or the newest speed is novel."""
        if self._history.num_rows < MIN_ROWS:
            return self._history.last_speed
        if self._fitted_at is None or self.records - self._fitted_at >= self.refit_every:
            self._fit()
        if self._history.novel:
            return self._history.last_speed
        value = float(self._history.row(cpu, memory) @ self._coefficients) + self._intercept
        return self._history.plausible(value)

    @property
    def coefficients(self) -> dict[str, float]:
        """Coefficients of the last fit, by regressor name."""
        return dict(zip(REGRESSORS, map(float, self._coefficients), strict=True))

    def _fit(self) -> None:
        rows, speeds = self._history.table()
        inputs, mean, scale = standardised(rows)
        middle = mean_of(speeds)
        normal = inputs.T @ inputs + self._penalty
        self._coefficients = np.linalg.solve(normal, inputs.T @ (speeds - middle)) / scale
        self._intercept = float(middle - mean @ self._coefficients)
        self._fitted_at = self.records
