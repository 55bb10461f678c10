"""Intervals of time: their union, and its overlap with other intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def union(ends: Floats) -> Floats:
    """[n, 2] begin and end of intervals: the same time as disjoint ones, ascending."""
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    reached = np.maximum.accumulate(ends[:, 1])
    apart = ends[1:, 0] > reached[:-1]
    first, last = np.r_[True, apart][: len(ends)], np.r_[apart, True][: len(ends)]
    return np.stack([ends[first, 0], reached[last]], axis=1)


def inside(disjoint: Floats, spans: Floats) -> Floats:
    """[spans]: how much of every span (``[spans, 2]``) disjoint ascending intervals cover."""
    if not len(disjoint):
        return np.zeros(len(spans))
    lengths = disjoint[:, 1] - disjoint[:, 0]
    before = np.r_[0.0, np.cumsum(lengths)]

    def until(moments: Floats) -> Floats:
        place = np.searchsorted(disjoint[:, 0], moments, side="right") - 1
        within = np.minimum(moments - disjoint[place, 0], lengths[place])
        return np.where(place < 0, 0.0, before[place] + within)

    return np.asarray(until(spans[:, 1]) - until(spans[:, 0]))
