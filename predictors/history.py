"""The window of records that an autoregressive predictor learns from, as a table of regressors."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from predictors.base import SpeedRecord, nothing_known

Floats = NDArray[np.float64]

REGRESSORS = ("v(t)", "v(t-1)", "c(t+1)", "c(t)", "m(t+1)", "m(t)")
"""Columns: the last two speeds v; processor c and memory m of the next and of the last iteration (LB-BSP)."""
NOVEL_FRAC = 0.2
"""STAR's threshold between stragglers and the rest, used here to call a speed novel."""


class History:
    """The last ``window`` records, oldest first; ``count`` records have been added in all."""

    def __init__(self, window: int) -> None:
        self._records: deque[SpeedRecord] = deque(maxlen=window)
        self.count = 0
        self._learnt = (0.0, float("inf"))

    def add(self, record: SpeedRecord) -> None:
        """Append a record; the oldest falls out of a full window."""
        self._records.append(record)
        self.count += 1

    @property
    def last_speed(self) -> float:
        """Speed of the newest record; raises ``ValueError`` if there is none."""
        if not self._records:
            raise nothing_known()
        return self._records[-1].speed

    @property
    def num_rows(self) -> int:
        """Number of rows of the table; a row needs two records before its own."""
        return max(0, len(self._records) - 2)

    @property
    def novel(self) -> bool:
        """Whether the newest speed differs from all speeds of the last :meth:`table` by more than ``NOVEL_FRAC``.

        A fit to that table says nothing about such a speed: after a long calm, any fit predicts more calm.
        """
        slowest, fastest = self._learnt
        return not slowest / (1 + NOVEL_FRAC) <= self.last_speed <= fastest * (1 + NOVEL_FRAC)

    def table(self) -> tuple[Floats, Floats]:
        """(regressors, rows x 6; the speed that followed, rows)."""
        speeds = [record.speed for record in self._records]
        self._learnt = min(speeds), max(speeds)
        speed, cpu, memory = np.asarray(self._records, dtype=float).T
        columns = (speed[1:-1], speed[:-2], cpu[2:], cpu[1:-1], memory[2:], memory[1:-1])
        return np.column_stack(columns), speed[2:]

    def row(self, cpu: float, memory: float) -> Floats:
        """Regressors of the next iteration, float [6]."""
        newest, before = self._records[-1], self._records[-2]
        return np.array([newest.speed, before.speed, cpu, newest.cpu, memory, newest.memory])

    def plausible(self, speed: float) -> float:
        """``speed`` clipped to [half the slowest, twice the fastest] of the window, since a fit may extrapolate wildly.

        NaN becomes the last speed.
        """
        if not np.isfinite(speed):
            return self.last_speed
        speeds = [record.speed for record in self._records]
        return float(min(max(speed, min(speeds) / 2), max(speeds) * 2))


def standardised(values: Floats) -> tuple[Floats, Floats, Floats]:
    """(z-scores, mean, scale) of each column; a constant column has scale 1 and z-scores 0."""
    mean, scale = values.mean(axis=0), values.std(axis=0)
    constant = scale <= 1e-9 * np.abs(mean)
    scale = np.where(constant, 1.0, scale)
    return np.where(constant, 0.0, (values - mean) / scale), mean, scale
