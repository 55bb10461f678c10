"""The processor share and bandwidth that every worker has received lately, and will receive next (pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import isfinite
from statistics import median
from typing import final

import numpy as np

from predictors.history import Floats
from predictors.lstm import load_lstm, whole
from predictors.stragglers import Observation

RESOURCES = ("lstm", "ema", "last")
EMA_ALPHA = 0.2


@final
class Received:
    """The last ``size`` iterations of one worker."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows: deque[tuple[float, float]] = deque(maxlen=size)
        """(processor share, bytes per second)."""
        self.times: deque[float] = deque(maxlen=size)
        self.samples = 1.0

    def add(self, observation: Observation) -> None:
        """Add an iteration whose processor share is known; an unknown bandwidth counts as constant."""
        speed = observation.bytes_per_s if isfinite(observation.bytes_per_s) else 1.0
        self.rows.append((observation.cpu_frac, speed))
        self.times.append(observation.iter_s)
        self.samples = observation.samples

    @property
    def median_s(self) -> float:
        """The median of the times."""
        return median(self.times)

    def table(self) -> Floats:
        """Float [size, 2], oldest first; the oldest stands for all earlier ones."""
        rows = [self.rows[0]] * (self.size - len(self.rows)) + list(self.rows)
        return np.array(rows)


def forecast(name: str, weights: str, histories: Sequence[Received], first: int, last: int) -> Floats:
    """(processor share, bytes per second) of every worker's iterations from ``first`` to ``last`` ahead (1: the next).

    Float [workers, iterations, 2]. ``name`` is one of ``RESOURCES``; ``ema`` and ``last`` take what comes next to last.
    Both numbers are at least a hundredth of the newest, and a share is at most 1, or the worker's largest.
    """
    tables = np.stack([each.table() for each in histories])
    newest, most = tables[:, -1], whole(tables)
    if name == "lstm":
        ahead = load_lstm(weights, "resources").roll_out(tables / most, last)[:, first - 1 :] * most
    elif name == "ema":
        powers = (1.0 - EMA_ALPHA) ** np.arange(tables.shape[1] - 1, -1, -1)
        ahead = np.repeat(np.einsum("wsv,s->wv", tables, powers / powers.sum())[:, None], last - first + 1, axis=1)
    else:
        ahead = np.repeat(newest[:, None], last - first + 1, axis=1)
    shares = np.minimum(ahead[:, :, 0], most[:, :, 0])
    found: Floats = np.maximum(np.stack([shares, ahead[:, :, 1]], axis=2), newest[:, None] / 100)
    return found
