"""The window of records that an autoregressive predictor learns from, as a table of regressors."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

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
        self._window, self._end = window, 0
        self._rows = np.empty((2 * window, 3))
        """Speed, processor and memory of all records in the window, up to ``_end``, behind some that have left it."""
        self.count = 0
        self._learnt = (0.0, float("inf"))

    def add(self, record: SpeedRecord) -> None:
        """Append a record; the oldest falls out of a full window."""
        if self._end == len(self._rows):
            self._end = self._window
            self._rows[: self._end] = self._rows[self._end :]
        self._rows[self._end] = record
        self._end += 1
        self.count += 1

    @property
    def _records(self) -> Floats:
        return self._rows[max(0, self._end - self._window) : self._end]

    @property
    def last_speed(self) -> float:
        """Speed of the newest record; raises ``ValueError`` if there is none."""
        if not self.count:
            raise nothing_known()
        return float(self._rows[self._end - 1, 0])

    @property
    def num_rows(self) -> int:
        """Number of rows of the table; a row needs two records before its own."""
        return max(0, min(self.count, self._window) - 2)

    @property
    def novel(self) -> bool:
        """Whether the newest speed differs from all speeds of the last :meth:`table` by more than ``NOVEL_FRAC``.

        A fit to that table says nothing about such a speed: after a long calm, any fit predicts more calm.
        """
        slowest, fastest = self._learnt
        return not slowest / (1 + NOVEL_FRAC) <= self.last_speed <= fastest * (1 + NOVEL_FRAC)

    def table(self) -> tuple[Floats, Floats]:
        """(regressors, rows x 6; the speed that followed, rows)."""
        rows, speeds = tables([self])
        return rows[0], speeds[0]

    def row(self, cpu: float, memory: float) -> Floats:
        """Regressors of the next iteration, float [6]."""
        (before, _, _), (newest, newest_cpu, newest_memory) = self._rows[self._end - 2 : self._end].tolist()
        return np.array([newest, before, cpu, newest_cpu, memory, newest_memory])

    def plausible(self, speed: float) -> float:
        """``speed`` clipped to [half the slowest, twice the fastest] of the window, since a fit may extrapolate wildly.

        NaN becomes the last speed.
        """
        newest = self.last_speed
        if not isfinite(speed):
            return newest
        if newest / 2 <= speed <= newest * 2:  # as nearly always: no need to look through the window
            return speed
        speeds = self._records[:, 0]
        return min(max(speed, float(speeds.min()) / 2), float(speeds.max()) * 2)


def tables(histories: Sequence[History]) -> tuple[Floats, Floats]:
    """The tables of histories of the same length: [histories, rows, 6] and [histories, rows]."""
    records = np.stack([history._records for history in histories])
    speed, cpu, memory = records[..., 0], records[..., 1], records[..., 2]
    for history, slowest, fastest in zip(
        histories, speed.min(axis=1).tolist(), speed.max(axis=1).tolist(), strict=True
    ):
        history._learnt = slowest, fastest
    columns = (speed[:, 1:-1], speed[:, :-2], cpu[:, 2:], cpu[:, 1:-1], memory[:, 2:], memory[:, 1:-1])
    return np.stack(columns, axis=2), speed[:, 2:]


def mean_of(values: Floats) -> Floats:
    """The mean over rows: ``values.mean(axis=-2)`` without its checks, which take longer than the sum."""
    found: Floats = np.add.reduce(values, axis=-2) / values.shape[-2]
    return found


def standardised(values: Floats) -> tuple[Floats, Floats, Floats]:
    """(z-scores, mean, scale) of each column of [..., rows, columns]; a constant one has scale 1 and z-scores 0."""
    mean = mean_of(values)
    centred = values - mean[..., None, :]
    scale = np.sqrt(mean_of(centred * centred))  # which is what std does, mean included
    constant = scale <= 1e-9 * np.abs(mean)
    scale = np.where(constant, 1.0, scale)
    return np.where(constant[..., None, :], 0.0, centred / scale[..., None, :]), mean, scale
