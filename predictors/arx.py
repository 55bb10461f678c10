"""Linear autoregression with the worker's resources as inputs (ARX)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from predictors.base import SpeedRecord
from predictors.history import REGRESSORS, Floats, History, standardised, tables

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
        history: the store of the records, if another part keeps them; None: its own.
    """

    def __init__(
        self, window: int = 200, ridge: float = 1e-6, refit_every: int = 5, history: History | None = None
    ) -> None:
        self.ridge, self.refit_every = ridge, refit_every
        self._history = History(window) if history is None else history
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
        if self.is_due:
            fit_together([self])
        if self._history.novel:
            return self._history.last_speed
        value = float(self._history.row(cpu, memory) @ self._coefficients) + self._intercept
        return self._history.plausible(value)

    @property
    def coefficients(self) -> dict[str, float]:
        """Coefficients of the last fit, by regressor name."""
        return dict(zip(REGRESSORS, map(float, self._coefficients), strict=True))

    @property
    def is_due(self) -> bool:
        """Whether the next prediction needs another fit."""
        if self._history.num_rows < MIN_ROWS:
            return False
        return self._fitted_at is None or self.records - self._fitted_at >= self.refit_every


def fit_together(predictors: Sequence[Arx]) -> None:
    """Fit these, most of which have as many records; results do not depend on the grouping."""
    groups: dict[tuple[int, float], list[Arx]] = {}
    for one in predictors:
        groups.setdefault((one._history.num_rows, one.ridge), []).append(one)
    for (_, ridge), group in groups.items():
        rows, speeds = tables([one._history for one in group])
        inputs, means, scales = standardised(rows)
        middles = np.add.reduce(speeds, axis=1) / speeds.shape[1]
        across = inputs.transpose(0, 2, 1)
        normal = across @ inputs + ridge * np.eye(len(REGRESSORS))
        found = np.linalg.solve(normal, across @ (speeds - middles[:, None])[..., None])[..., 0] / scales
        for one, coefficients, mean, middle in zip(group, found, means, middles, strict=True):
            one._coefficients = coefficients
            one._intercept = float(middle - mean @ coefficients)
            one._fitted_at = one.records
