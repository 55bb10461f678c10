"""Piecewise constant functions of time: how many jobs wait, how many GPUs are in use. Exact, without sampling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import nan

import numpy as np


@dataclass(frozen=True, eq=False)
class Steps:
    """``value[i]`` holds from ``t[i]`` (seconds, increasing) to ``t[i + 1]``, the last one forever; 0 before."""

    t: np.ndarray
    value: np.ndarray

    def at(self, times: Iterable[float]) -> np.ndarray:
        """The value at each of ``times``; at a step, the value after it."""
        place = np.searchsorted(self.t, np.asarray(list(times), dtype="float64"), side="right")
        return np.concatenate([[0.0], self.value])[place]

    def integral(self, start_s: float, end_s: float) -> float:
        """Value times seconds between the two."""
        inside = self.t[(self.t > start_s) & (self.t < end_s)]
        edges = np.concatenate([[start_s], inside, [max(start_s, end_s)]])
        return float((np.diff(edges) * self.at(edges[:-1])).sum())

    def mean(self, start_s: float, end_s: float) -> float:
        """The mean over time; NaN for no time."""
        return self.integral(start_s, end_s) / (end_s - start_s) if end_s > start_s else nan

    @property
    def peak(self) -> float:
        """The largest value, 0 without any."""
        return float(self.value.max(initial=0.0))


def count_intervals(starts: Iterable[float], ends: Iterable[float], weights: Iterable[float] | None = None) -> Steps:
    """How many of the intervals [start, end) cover each time, each with its weight; NaN as an end: it never ends."""
    begin, end = (np.asarray(list(values), dtype="float64") for values in (starts, ends))
    weight = np.ones(len(begin)) if weights is None else np.asarray(list(weights), dtype="float64")
    ended = ~np.isnan(end)
    t, place = np.unique(np.concatenate([begin, end[ended]]), return_inverse=True)
    change = np.zeros(len(t))
    np.add.at(change, place, np.concatenate([weight, -weight[ended]]))
    return Steps(t, change.cumsum())
