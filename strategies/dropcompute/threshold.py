"""The threshold of compute time with the highest effective speed-up over recorded latencies (Algorithm 2; pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_THRESHOLDS = 2000
"""Ends of micro-batches that are tried; of more, as many in equal steps of their order."""


class Round(NamedTuple):
    """Latencies of one iteration of all workers."""

    ends_s: Sequence[Sequence[float]]
    """Seconds of computing after which each micro-batch was done, by worker."""
    rest_s: float
    """T^c: seconds of the iteration in which nobody computed."""


class Threshold(NamedTuple):
    """A threshold, its effective speed-up, and the part of the micro-batches that it drops."""

    seconds: float
    speedup: float
    dropped_frac: float


def effective_speedups(
    rounds: Sequence[Round], thresholds_s: ArrayLike, *, finishes: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(effective speed-up, computed part of the micro-batches) of each threshold, float64 [thresholds] both.

    With M micro-batches of N workers in round i, of which the threshold leaves M_i, and T_i the slowest worker's time:
    the mean over i of (M_i / N M) (T_i + T_i^c) / (t_i + T_i^c). By Algorithm 2, t_i = min(threshold, T_i) and M_i are
    those done by then. ``finishes``: a worker completes the micro-batch in hand, so that this one counts, too, and t_i
    is when the last worker has.
    """
    tried = np.asarray(thresholds_s, dtype=np.float64)
    speedups, computed = np.zeros_like(tried), np.zeros_like(tried)
    for ends_s, rest_s in rounds:
        slowest_s = max(ends[-1] for ends in ends_s)
        count, stopped_s = np.zeros_like(tried), np.zeros_like(tried)
        for ends in map(np.asarray, ends_s):
            done = np.searchsorted(ends, tried, side="right")
            if finishes:
                done = np.minimum(done + 1, len(ends))
                stopped_s = np.maximum(stopped_s, ends[done - 1])
            count += done
        if not finishes:
            stopped_s = np.minimum(tried, slowest_s)
        part = count / sum(map(len, ends_s))
        computed += part / len(rounds)
        speedups += part * (slowest_s + rest_s) / (stopped_s + rest_s) / len(rounds)
    return speedups, computed


def best_threshold(rounds: Sequence[Round], *, finishes: bool) -> Threshold:
    """The threshold with the highest effective speed-up; of equal ones the highest, which drops least.

    Between two ends of micro-batches at most the waiting changes, so no other thresholds are tried. Of workers that
    finish what they have begun, one before all ends leaves them one micro-batch each.
    """
    ends_s = np.unique([end for one in rounds for ends in one.ends_s for end in ends])
    tried = ends_s[:: -(-len(ends_s) // MOST_THRESHOLDS)] if len(ends_s) > MOST_THRESHOLDS else ends_s
    tried = np.concatenate(([0.0] if finishes else [], tried, ends_s[-1:]))
    speedups, computed = effective_speedups(rounds, tried, finishes=finishes)
    best = len(tried) - 1 - int(np.argmax(speedups[::-1]))
    return Threshold(float(tried[best]), float(speedups[best]), float(1.0 - computed[best]))
