"""LB-BSP's predictor: a nonlinear autoregressive network with the worker's resources as inputs (NARX)."""

from __future__ import annotations

import warnings
from typing import Any, final

import numpy as np

from predictors.arx import Arx
from predictors.base import SpeedRecord
from predictors.history import History, standardised

MIN_RECORDS = 50
"""Minimum number of records; before that, the linear fit answers."""
DECAY = 1e-3
"""Penalty on squared weights per record, in standardised units, so that a few dozen records are not overfitted."""
MAX_STEPS = 100
"""Optimiser iterations of one fit; the next fit continues from its weights."""


@final
class Narx:
    """v(t+1) = f(v(t), v(t-1), c(t+1), c(t), m(t+1), m(t)), where f is a one-hidden-layer network trained online.

    Source: Chen et al. (SoCC 2020) name the inputs, and no sizes: two lags and ten tanh units are our reading.
    Inputs and output are standardised over the window. scikit-learn fits it (L-BFGS) from weights of a fixed seed, and
    again from the previous fit's weights.

    Args:
        hidden: number of tanh units.
        window: number of records to learn from.
        refit_every: records between two fits.
    """

    def __init__(self, hidden: int = 10, window: int = 200, refit_every: int = 50) -> None:
        self.hidden, self.refit_every = hidden, refit_every
        self._history = History(window)
        self.linear = Arx(window, history=self._history)
        self._network: Any = None
        self._fitted_at: int | None = None

    @property
    def records(self) -> int:
        """Number of records received so far."""
        return self._history.count

    def update(self, record: SpeedRecord) -> None:
        """Store the record; refitting is deferred to the next prediction."""
        self._history.add(record)

    @property
    def is_linear(self) -> bool:
        """Whether the linear fit answers, since there are too few records."""
        return self.records < MIN_RECORDS

    def predict(self, cpu: float = 1.0, memory: float = 1.0) -> float:
        """The network's output; the linear fit's before 50 records; the last speed if that is novel."""
        if self.is_linear:
            return self.linear.predict(cpu, memory)
        if self._fitted_at is None or self.records - self._fitted_at >= self.refit_every:
            self._fit()
        if self._history.novel:
            return self._history.last_speed
        row = (self._history.row(cpu, memory) - self._mean) / self._scale
        (into, out), (bias, last) = self._network.coefs_, self._network.intercepts_
        value = float((np.tanh(row @ into + bias) @ out + last)[0])  # its own predict takes ten times as long
        return self._history.plausible(value * self._speed_scale + self._speed_mean)

    def _fit(self) -> None:
        from sklearn.neural_network import MLPRegressor  # takes a second to import, and most jobs fit nothing

        rows, speeds = self._history.table()
        known = np.isfinite(rows).all(axis=1) & np.isfinite(speeds)
        if known.any():
            rows, speeds = rows[known], speeds[known]
        inputs, self._mean, self._scale = standardised(rows)
        targets, mean, scale = standardised(speeds[:, None])
        self._speed_mean, self._speed_scale = float(mean[0]), float(scale[0])
        if self._network is None:
            own = {"hidden_layer_sizes": (self.hidden,), "activation": "tanh", "max_iter": MAX_STEPS, "tol": 1e-6}
            self._network = MLPRegressor(**own, solver="lbfgs", warm_start=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a fit has not converged: the next one continues
            self._network.set_params(alpha=DECAY * len(rows)).fit(inputs, targets[:, 0])
        self._fitted_at = self.records
