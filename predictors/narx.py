"""LB-BSP's predictor: a nonlinear autoregressive network with the worker's resources as inputs (NARX)."""

from __future__ import annotations

from typing import final

import numpy as np

from predictors.arx import Arx
from predictors.base import SpeedRecord
from predictors.history import REGRESSORS, Floats, History, standardised

MIN_RECORDS = 50
"""Minimum number of records; before that, the linear fit answers."""
DECAY = 1e-3
"""Penalty on squared weights, in standardised units, so that a few dozen records are not overfitted."""
MAX_STEPS = 100
"""Optimiser iterations of one fit; the next fit continues from its weights."""


@final
class Narx:
    """v(t+1) = f(v(t), v(t-1), c(t+1), c(t), m(t+1), m(t)), where f is a one-hidden-layer network trained online.

    Source: Chen et al. (SoCC 2020) name the inputs, and no sizes: two lags and ten tanh units are our reading.
    Inputs and output are standardised over the window. Deterministic: the weights start from a fixed spread of values
    and each fit (L-BFGS) starts from the previous one.

    Args:
        hidden: number of tanh units.
        window: number of records to learn from.
        refit_every: records between two fits.
    """

    def __init__(self, hidden: int = 10, window: int = 200, refit_every: int = 50) -> None:
        self.hidden, self.refit_every = hidden, refit_every
        self._history = History(window)
        self.linear = Arx(window, history=self._history)
        self._weights = _spread(hidden * (len(REGRESSORS) + 2) + 1)
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
        value = float(_forward(self._weights, row[None, :], self.hidden)[0][0])
        return self._history.plausible(value * self._speed_scale + self._speed_mean)

    def _fit(self) -> None:
        from scipy.optimize import minimize  # takes 0.5 s to import, and most jobs fit nothing

        rows, speeds = self._history.table()
        inputs, self._mean, self._scale = standardised(rows)
        targets, mean, scale = standardised(speeds[:, None])
        self._speed_mean, self._speed_scale = float(mean[0]), float(scale[0])
        found = minimize(
            _loss,
            self._weights,
            args=(inputs, targets[:, 0], self.hidden),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": MAX_STEPS},
        )
        self._weights = np.asarray(found.x, dtype=float)
        self._fitted_at = self.records


def _spread(count: int) -> Floats:
    """``count`` values within +-0.4 without a pattern: multiples of an irrational number, folded."""
    golden = (np.sqrt(5) - 1) / 2
    return np.asarray(0.8 * (np.arange(1, count + 1) * golden % 1.0) - 0.4)


def _forward(weights: Floats, inputs: Floats, hidden: int) -> tuple[Floats, Floats]:
    """(outputs, float [rows]; activations of the hidden units, float [rows, hidden])."""
    into, bias, out, last = _parts(weights, inputs.shape[1], hidden)
    units = np.tanh(inputs @ into + bias)
    return units @ out + last, units


def _loss(weights: Floats, inputs: Floats, targets: Floats, hidden: int) -> tuple[float, Floats]:
    """Half the mean squared error with weight decay, and its gradient."""
    _, _, out, _ = _parts(weights, inputs.shape[1], hidden)
    outputs, units = _forward(weights, inputs, hidden)
    error = (outputs - targets) / len(targets)
    behind = np.outer(error, out) * (1 - units**2)
    gradient = np.concatenate([(inputs.T @ behind).ravel(), behind.sum(axis=0), units.T @ error, [error.sum()]])
    loss = 0.5 * len(targets) * float(error @ error) + 0.5 * DECAY * float(weights @ weights)
    return loss, gradient + DECAY * weights


def _parts(weights: Floats, num_inputs: int, hidden: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Views of the flat vector: float [inputs, hidden], [hidden], [hidden] and a scalar [1]."""
    into, bias, out = np.split(weights[:-1], [num_inputs * hidden, (num_inputs + 1) * hidden])
    return into.reshape(num_inputs, hidden), bias, out, weights[-1]
