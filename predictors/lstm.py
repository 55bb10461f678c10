"""Inference of a fitted LSTM in numpy, for all workers at once, and the file that holds one.

Training is a script (``scripts/fitting/train_predictor.py``, torch); the file has the weights, the z-scores of the
training data and the command that made it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, final

import numpy as np

from predictors.fitted_file import FITTED, FittedKind, read_fitted
from predictors.history import Floats

FORMAT = "stragglab-lstm-1"
LAYERS = 2
SERIES = {"resources": 2, "deviation": 1}
"""Series that a file may predict, and values at a time: (processor share, relative bandwidth); deviation."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Lstm:
    """Two layers and a linear head that predicts the next value of a series from those before.

    ``layers`` holds (from the input, from the state, bias) of each: float [4 hidden, inputs], [4 hidden, hidden],
    [4 hidden]; gates are in torch's order: input, forget, cell, output.
    """

    series: str
    mean: Floats
    scale: Floats
    layers: tuple[tuple[Floats, Floats, Floats], ...]
    head: Floats
    head_bias: Floats
    command: str = ""
    known_as: str = ""
    """The name of its file in records; empty of one without a file."""

    def roll_out(self, history: Floats, horizon: int) -> Floats:
        """The next ``horizon`` values of every worker's series, float [workers, horizon, values].

        Args:
            history: float [workers, steps, values], oldest first; each prediction is an input of the next.
            horizon: 1 or more.
        """
        scaled = (history - self.mean) / self.scale
        workers, steps, _ = scaled.shape
        states = [(np.zeros((workers, len(bias) // 4)),) * 2 for _, _, bias in self.layers]
        ahead = np.empty((workers, horizon, scaled.shape[2]))
        value = scaled[:, 0]
        for step in range(steps + horizon - 1):
            if step < steps:
                value = scaled[:, step]
            inputs = value
            for number, weights in enumerate(self.layers):
                states[number] = _cell(weights, inputs, states[number])
                inputs = states[number][0]
            if step >= steps - 1:
                value = inputs @ self.head.T + self.head_bias
                ahead[:, step - steps + 1] = value
        return ahead * self.scale + self.mean


def _cell(
    weights: tuple[Floats, Floats, Floats], inputs: Floats, state: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """(hidden, cell) after one more step; both float [workers, hidden]."""
    into, again, bias = weights
    gates = inputs @ into.T + state[0] @ again.T + bias
    entered, kept, fresh, shown = np.split(gates, 4, axis=1)
    cell = _sigmoid(kept) * state[1] + _sigmoid(entered) * np.tanh(fresh)
    return _sigmoid(shown) * np.tanh(cell), cell


def _sigmoid(values: Floats) -> Floats:
    return 0.5 * (1.0 + np.tanh(0.5 * values))


def whole(resources: Floats) -> Floats:
    """Return what counts as 1 of each worker's (processor share, bandwidth), float [workers, 1, 2].

    It is the largest of the worker's history, so that a file fitted on one network serves another; of the processor one
    core at least. ``resources`` is float [workers, steps, 2].
    """
    largest: Floats = resources.max(axis=1, keepdims=True)
    largest[:, :, 0] = np.maximum(largest[:, :, 0], 1.0)
    return largest


@lru_cache(maxsize=8)
def load_lstm(path: str, series: str) -> Lstm:
    """The fitted LSTM in a file, or the one that comes along (an empty ``path``).

    Raises:
        ValueError: there is no such file, or it holds something else; in one line that starts with ``weights=``.
    """
    place = Path(path) if path else FITTED / f"{series}.npz"
    cure = f"fit one with scripts/fitting/train_predictor.py --series {series}"
    found, known_as = read_fitted(place, FittedKind("weights", FORMAT, "train_predictor.py"), cure)
    if str(found.get("series", "")) != series:
        raise ValueError(f"weights={place}: predicts {found.get('series')}, not {series}; {cure}")
    return replace(_lstm(found, place, series, cure), known_as=known_as)


def _lstm(found: dict[str, Any], place: Path, series: str, cure: str) -> Lstm:
    try:
        layers = tuple(
            (found[f"into{n}"].astype(float), found[f"again{n}"].astype(float), found[f"bias{n}"].astype(float))
            for n in range(LAYERS)
        )
        whole = Lstm(
            series=series,
            mean=found["mean"].astype(float),
            scale=found["scale"].astype(float),
            layers=layers,
            head=found["head"].astype(float),
            head_bias=found["head_bias"].astype(float),
            command=str(found["command"]),
        )
        fitted = bool((whole.scale > 0).all())
        fitted = fitted and bool(np.isfinite(whole.roll_out(np.zeros((1, 2, SERIES[series])), 2)).all())
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(f"weights={place}: has not the arrays of a fitted LSTM ({error}); {cure}") from None
    if not fitted:
        raise ValueError(f"weights={place}: is not fitted: weights that are not finite, or scales of zero; {cure}")
    return whole
