"""Regressors of iteration times: from what a worker receives to how long its iteration takes (pure).

STAR, section IV-A, names the inputs (received processor share and bandwidth, the model, the batch) and no regressor.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Protocol, final

import numpy as np

from predictors.history import Floats
from predictors.iteration_time import Coefficients, fit_times, predict_times
from predictors.network import Network

REGRESSORS = ("linear", "mlp", "lightgbm")
HIDDEN = (32, 16)
"""Units of the network's layers: two inputs need no more (STAR's code has 256 and 128)."""
FIRST_STEPS, MORE_STEPS = 800, 100
"""Minibatches of the first fit of a network and of each that continues it."""


class Regressor(Protocol):
    """``inputs`` are float [rows, 2]: samples / processor share, and bytes / bandwidth (a constant factor is free)."""

    def fit(self, inputs: Floats, seconds: Floats) -> None:
        """Learn from iterations that took so long; float [rows], above zero."""
        ...

    def predict(self, inputs: Floats) -> Floats:
        """Predicted seconds, float [rows]; only after :meth:`fit`."""
        ...


@final
@dataclass
class Linear:
    """T = a + c1 samples / cpu + c2 bytes / bandwidth (:mod:`predictors.iteration_time`)."""

    coefficients: Coefficients = field(default_factory=lambda: Coefficients(0.0, 0.0, 0.0))

    def fit(self, inputs: Floats, seconds: Floats) -> None:
        self.coefficients = fit_times(inputs, seconds)

    def predict(self, inputs: Floats) -> Floats:
        return predict_times(self.coefficients, inputs)


@final
class Mlp:
    """A network on the logarithms of inputs and times, since what counts are ratios; a fit continues the last one."""

    def __init__(self) -> None:
        self._network = Network(2, HIDDEN, rate=5e-3)

    def fit(self, inputs: Floats, seconds: Floats) -> None:
        rows, times = np.log(inputs), np.log(seconds)
        steps = MORE_STEPS if self._network.fitted else FIRST_STEPS
        self._network.standardise(rows, times)
        self._network.fit(rows, times, epochs=-(-steps * self._network.batch_rows // len(rows)))

    def predict(self, inputs: Floats) -> Floats:
        seconds: Floats = np.exp(self._network.predict(np.log(inputs)))
        return seconds


@final
class Boosted:
    """LightGBM's trees, on the logarithms of inputs and times."""

    def __init__(self) -> None:
        from lightgbm import LGBMRegressor

        same = {"deterministic": True, "force_col_wise": True, "num_threads": 1, "random_state": 0, "verbose": -1}
        self._model: Any = LGBMRegressor(n_estimators=50, min_child_samples=5).set_params(**same)

    def fit(self, inputs: Floats, seconds: Floats) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few rows: the fit is used anyway
            self._model.fit(np.log(inputs), np.log(seconds))

    def predict(self, inputs: Floats) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds: Floats = np.exp(np.asarray(self._model.predict(np.log(inputs)), dtype=float))
        return seconds


def regressor(name: str) -> Regressor:
    """A new regressor from ``REGRESSORS``; raises ``ValueError`` for another, or for one that is not installed."""
    match name:
        case "linear":
            return Linear()
        case "mlp":
            return Mlp()
        case "lightgbm":
            if find_spec("lightgbm") is None:
                raise ValueError("regressor=lightgbm: lightgbm is not installed; pip install 'stragglab[ml]'")
            return Boosted()
    raise ValueError(f"regressor={name}: must be one of {', '.join(REGRESSORS)}")
