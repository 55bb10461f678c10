"""Performance profiles: one number for how often, and how nearly, a strategy is the best of all."""

from __future__ import annotations

from math import inf, nan

import numpy as np

MOST = 4.0
"""Largest factor over the best that still counts, as in AlgoPerf."""


def profile_scores(times: np.ndarray, most: float = MOST) -> np.ndarray:
    """Score of every strategy over all cases: the area below its performance profile.

    A profile says for every factor r in which share of the cases a strategy took at most r times as long as the best
    one there (Dolan and More 2002); AlgoPerf (Dahl et al. 2023) takes its mean over r from 1 to ``most``.

    Args:
        times: a row per case, a column per strategy; infinite where it never got there, NaN where it was not run.
        most: see above, over 1.

    Returns:
        A number from 0 (never within ``most`` times the best) to 1 (always the best) per strategy, [strategies]; NaN
        for a strategy that lacks a case.
    """
    times = np.asarray(times, dtype="float64")
    best = np.nanmin(np.where(np.isnan(times), inf, times), axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        ratios = np.where(np.isinf(times), inf, times / best)
    share = np.clip(most - ratios, 0.0, most - 1.0) / (most - 1.0)
    scores: np.ndarray = np.where(np.isnan(times), nan, share).mean(axis=0)
    return scores
