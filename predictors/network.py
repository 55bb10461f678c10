"""A small network of rectified units that learns in slices: Adam on minibatches, in numpy (pure).

For regressions inside a decision: all parameters are one flat vector of numbers, a fit may be carried out some steps at
a time between decisions, and equal data give equal networks, since what other implementations draw at random is hashed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from predictors.history import Floats, standardised

FAST, SLOW = 0.9, 0.999
"""Adam's decays of the mean and of the mean square of gradients (Kingma and Ba, 2015)."""
TINY = 1e-8
LEAST_RATE_FRAC = 0.01
"""The rate falls linearly to this part of the first during a fit."""
FARTHEST = 6.0
"""Inputs further from the mean than so many scales count as that far: nothing has been learnt there."""


@final
class Network:
    """A regression of one number, with layers of rectified units; inputs and outputs are standardised.

    The first fit determines the mean and scale of inputs and outputs, unless :meth:`standardise` is called; later fits
    continue from its weights.

    Args:
        inputs: numbers in a row.
        hidden: units of the hidden layers.
        rate: step size of Adam at the beginning of a fit.
        batch_rows: rows of a minibatch.
    """

    def __init__(self, inputs: int, hidden: Sequence[int] = (64, 32), rate: float = 1e-3, batch_rows: int = 64) -> None:
        self.sizes = (inputs, *hidden, 1)
        self.rate, self.batch_rows = rate, batch_rows
        self.fitted = False
        self.parameters = first_parameters(self.sizes)
        self._changing = self.parameters
        self._mean, self._scale = np.zeros(inputs), np.ones(inputs)
        self._target_mean, self._target_scale = 0.0, 1.0
        self._moments = np.zeros((2, len(self.parameters)))
        self._steps = self._epochs = 0
        self._to_do = self._planned = 0
        self._data: tuple[Floats, Floats, Floats] | None = None
        self._order: NDArray[np.intp] = np.zeros(0, dtype=np.intp)

    # ---- learning ---------------------------------------------------------------------------------------------------

    def standardise(self, inputs: Floats, targets: Floats) -> None:
        """Take over the means and scales of these rows, which changes what the weights mean."""
        _, self._mean, self._scale = standardised(inputs)
        self._target_mean, scale = float(targets.mean()), float(targets.std())
        self._target_scale = scale if scale > 0 else 1.0
        self.fitted = True

    def begin(self, inputs: Floats, targets: Floats, weights: Floats | None = None, epochs: int = 1) -> None:
        """Begin a fit that :meth:`advance` carries out.

        Args:
            inputs: float [rows, inputs], finite.
            targets: float [rows].
            weights: how much each row counts, float [rows]; None: all alike.
            epochs: passes over all rows.
        """
        rows = len(inputs)
        if not self.fitted:
            self.standardise(inputs, targets)
        own = np.ones(rows) if weights is None else weights / weights.mean()
        self._data = (self._scaled(inputs), (targets - self._target_mean) / self._target_scale, own)
        self._changing = self.parameters.copy()
        self._moments[:] = 0.0
        self._steps = 0
        self._planned = self._to_do = epochs * -(-rows // self.batch_rows)

    def advance(self, steps: int) -> bool:
        """Carry out so many minibatches of the fit; True when it is complete (or none has begun).

        Until then predictions are those from before.
        """
        for _ in range(min(steps, self._to_do)):
            self._step()
        if not self._to_do:
            self._data, self.parameters = None, self._changing
        return not self._to_do

    def fit(self, inputs: Floats, targets: Floats, weights: Floats | None = None, epochs: int = 1) -> None:
        """A whole fit at once; see :meth:`begin`."""
        self.begin(inputs, targets, weights, epochs)
        self.advance(self._to_do)

    def _step(self) -> None:
        assert self._data is not None
        inputs, targets, weights = self._data
        batches = -(-len(inputs) // self.batch_rows)
        place = (self._planned - self._to_do) % batches
        if place == 0:
            self._order = np.argsort(spread(len(inputs), self._epochs), kind="stable")
            self._epochs += 1
        rows = self._order[place * self.batch_rows : (place + 1) * self.batch_rows]
        gradient = self._gradient(inputs[rows], targets[rows], weights[rows])
        self._steps += 1
        mean, square = self._moments
        mean += (1.0 - FAST) * (gradient - mean)
        square += (1.0 - SLOW) * (gradient * gradient - square)
        left = self._to_do / self._planned
        rate = self.rate * (LEAST_RATE_FRAC + (1.0 - LEAST_RATE_FRAC) * left)
        rate *= np.sqrt(1.0 - SLOW**self._steps) / (1.0 - FAST**self._steps)
        self._changing -= rate * mean / (np.sqrt(square) + TINY)
        self._to_do -= 1

    def _gradient(self, inputs: Floats, targets: Floats, weights: Floats) -> Floats:
        """Return the gradient of half the weighted mean squared error."""
        layers = layers_of(self._changing, self.sizes)
        shown = [inputs]
        for matrix, bias in layers[:-1]:
            shown.append(np.maximum(shown[-1] @ matrix + bias, 0.0))
        matrix, bias = layers[-1]
        error = ((shown[-1] @ matrix + bias)[:, 0] - targets) * weights / len(targets)
        gradient = np.empty_like(self._changing)
        behind = error[:, None]
        pairs = list(zip(layers, layers_of(gradient, self.sizes), shown, strict=True))
        for (matrix, _), (of_matrix, of_bias), into in reversed(pairs):
            np.matmul(into.T, behind, out=of_matrix)
            np.sum(behind, axis=0, out=of_bias)
            behind = (behind @ matrix.T) * (into > 0)
        return gradient

    # ---- answers ----------------------------------------------------------------------------------------------------

    def predict(self, inputs: Floats) -> Floats:
        """Predicted targets of these rows, float [rows]; only after a fit."""
        value = self._scaled(inputs)
        layers = layers_of(self.parameters, self.sizes)
        for matrix, bias in layers[:-1]:
            value = np.maximum(value @ matrix + bias, 0.0)
        matrix, bias = layers[-1]
        found: Floats = (value @ matrix + bias)[:, 0] * self._target_scale + self._target_mean
        return found

    def _scaled(self, inputs: Floats) -> Floats:
        scaled: Floats = np.clip((inputs - self._mean) / self._scale, -FARTHEST, FARTHEST)
        return scaled

    # ---- a file -----------------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, Any]:
        """Return the arrays that a file of it holds."""
        return {
            "sizes": np.array(self.sizes),
            "parameters": self.parameters,
            "mean": self._mean,
            "scale": self._scale,
            "target": np.array([self._target_mean, self._target_scale]),
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> Network:
        """The network of a file; raises ``KeyError`` or ``ValueError`` for anything else, or not finite."""
        sizes = [int(size) for size in arrays["sizes"]]
        if len(sizes) < 2 or sizes[-1] != 1:
            raise ValueError(f"layers of {sizes}")
        own = cls(sizes[0], sizes[1:-1])
        for name, value, length in (
            ("parameters", own.parameters, len(own.parameters)),
            ("mean", own._mean, sizes[0]),
            ("scale", own._scale, sizes[0]),
        ):
            given = np.asarray(arrays[name], dtype=float)
            if given.shape != (length,):
                raise ValueError(f"{name} of shape {given.shape}")
            value[:] = given
        own._target_mean, own._target_scale = (float(value) for value in arrays["target"])
        numbers = np.concatenate([own.parameters, own._mean, own._scale, [own._target_mean, own._target_scale]])
        if not np.isfinite(numbers).all() or not (own._scale > 0).all() or own._target_scale <= 0:
            raise ValueError("numbers that are not finite, or scales of zero")
        own.fitted = True
        return own


def layers_of(flat: Floats, sizes: Sequence[int]) -> list[tuple[Floats, Floats]]:
    """Views of a flat vector: (matrix, float [inputs, outputs]; bias, float [outputs]) of every layer."""
    found, at = [], 0
    for inputs, outputs in pairwise(sizes):
        end = at + inputs * outputs
        found.append((flat[at:end].reshape(inputs, outputs), flat[end : end + outputs]))
        at = end + outputs
    return found


def first_parameters(sizes: Sequence[int]) -> Floats:
    """Biases of zero, and weights evenly within +-sqrt(6 / inputs) (He et al., 2015), the same ones every time."""
    total = sum(inputs * outputs + outputs for inputs, outputs in pairwise(sizes))
    flat = 2.0 * spread(total, 0) - 1.0
    for matrix, bias in layers_of(flat, sizes):
        matrix *= np.sqrt(6.0 / len(matrix))
        bias[:] = 0.0
    return flat


def spread(count: int, salt: int) -> Floats:
    """``count`` numbers in (0, 1) without a pattern, the same for the same ``salt``: a hash of their place.

    The hash is SplitMix64 (Steele et al., 2014), whose counter begins at ``salt`` times 2^32.
    """
    bits = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(salt << 32)) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    found: Floats = ((bits >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
    return found
