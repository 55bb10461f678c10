"""Linear autoregression with the worker's resources as inputs (ARX)."""

from __future__ import annotations

from typing import final

import numpy as np

from predictors.base import Record
from predictors.history import REGRESSORS, Floats, History, standardised

MIN_ROWS = len(REGRESSORS) + 2
"""More equations than unknowns; with fewer the last value stands in."""


@final
class Arx:
    """v(t+1) = a1 v(t) + a2 v(t-1) + c1 c(t+1) + c2 c(t) + m1 m(t+1) + m2 m(t) + b, by ridge regression.

    The linear version of LB-BSP's NARX network: the fallback while that has too few records. A newest speed that is
    unlike all that the fit has seen is expected to last.

    Args:
        window: records that it learns from.
        ridge: penalty on standardised coefficients; only there so that constant inputs do no harm.
        refit_every: records between two fits.
    """

    def __init__(self, window: int = 200, ridge: float = 1e-6, refit_every: int = 5) -> None:
        self.ridge, self.refit_every = ridge, refit_every
        self._history = History(window)
        self._fitted_at: int | None = None
        self._coefficients: Floats = np.zeros(len(REGRESSORS))
        self._intercept = 0.0

    @property
    def records(self) -> int:
        """Told so far."""
        return self._history.count

    def update(self, record: Record) -> None:
        """Remember it; a fit waits until somebody asks."""
        self._history.add(record)

    def predict(self, cpu: float = 1.0, memory: float = 1.0) -> float:
        """The line's value, or the last speed while there is no line."""
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
        """Of the last fit, by regressor."""
        return dict(zip(REGRESSORS, map(float, self._coefficients), strict=True))

    def _fit(self) -> None:
        rows, speeds = self._history.table()
        inputs, mean, scale = standardised(rows)
        normal = inputs.T @ inputs + self.ridge * np.eye(len(REGRESSORS))
        self._coefficients = np.linalg.solve(normal, inputs.T @ (speeds - speeds.mean())) / scale
        self._intercept = float(speeds.mean() - mean @ self._coefficients)
        self._fitted_at = self.records
