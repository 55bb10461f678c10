"""Ridge regression behind the interface of :class:`predictors.network.Network`: complete at once (pure)."""

from __future__ import annotations

from typing import final

import numpy as np

from predictors.history import Floats, standardised

PENALTY = 1e-3
"""On squared coefficients of standardised inputs, per row."""


@final
class Ridge:
    """Least squares with a small penalty on the coefficients.

    Args:
        inputs: numbers in a row.
    """

    def __init__(self, inputs: int) -> None:
        self.fitted = False
        self._coefficients: Floats = np.zeros(inputs)
        self._mean: Floats = np.zeros(inputs)
        self._scale: Floats = np.ones(inputs)
        self._target_mean = 0.0

    def begin(self, inputs: Floats, targets: Floats, weights: Floats | None = None, epochs: int = 1) -> None:
        """Fit these rows, whatever ``epochs`` is; see :meth:`predictors.network.Network.begin`."""
        own = np.ones(len(inputs)) if weights is None else weights / weights.mean()
        scaled, self._mean, self._scale = standardised(inputs)
        self._target_mean = float(np.average(targets, weights=own))
        gram = (scaled * own[:, None]).T @ scaled + PENALTY * len(inputs) * np.eye(scaled.shape[1])
        solution = np.linalg.solve(gram, scaled.T @ (own * (targets - self._target_mean)))
        self._coefficients = np.asarray(solution, dtype=float)
        self.fitted = True

    def advance(self, steps: int) -> bool:
        """Do nothing, as there is nothing left to do."""
        return True

    def predict(self, inputs: Floats) -> Floats:
        """Predicted targets of these rows, float [rows]; only after a fit."""
        found: Floats = (inputs - self._mean) / self._scale @ self._coefficients + self._target_mean
        return found
