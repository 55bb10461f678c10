"""Performance profiles: how often, and how nearly, a strategy is the best of all (Dolan and More 2002)."""

from __future__ import annotations

from math import inf, nan

import numpy as np

MOST = 4.0
"""Largest factor over the best that still counts, as in AlgoPerf."""


def ratios_to_best(times: np.ndarray) -> np.ndarray:
    """Every time over the best one of its case.

    Args:
        times: [cases, strategies], in any unit; infinite where a strategy never got there, NaN where it was not run.

    Returns:
        [cases, strategies], 1 or more; infinite and NaN where the times are.
    """
    times = np.asarray(times, dtype="float64")
    best = np.nanmin(np.where(np.isnan(times), inf, times), axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        ratios: np.ndarray = np.where(np.isinf(times), inf, times / best)
    return ratios


def within(times: np.ndarray, factor: float) -> np.ndarray:
    """The share of the cases in which a strategy takes at most ``factor`` times as long as the best one there.

    As a function of the factor it is the strategy's performance profile.

    Args:
        times: as of :func:`ratios_to_best`.
        factor: 1 (how often it is the best, ties included) or more.

    Returns:
        [strategies], from 0 to 1; NaN for a strategy that lacks a case.
    """
    ratios = ratios_to_best(times)
    shares: np.ndarray = np.where(np.isnan(ratios), nan, ratios <= factor).mean(axis=0)
    return shares


def profile_scores(times: np.ndarray, most: float = MOST) -> np.ndarray:
    """Score of every strategy over all cases: the area below its performance profile.

    AlgoPerf (Dahl et al. 2023) takes the mean of the profile over factors from 1 to ``most``.

    Args:
        times: as of :func:`ratios_to_best`.
        most: see above, over 1.

    Returns:
        A number from 0 (never within ``most`` times the best) to 1 (always the best) per strategy, [strategies]; NaN
        for a strategy that lacks a case.
    """
    ratios = ratios_to_best(times)
    share = np.clip(most - ratios, 0.0, most - 1.0) / (most - 1.0)
    scores: np.ndarray = np.where(np.isnan(ratios), nan, share).mean(axis=0)
    return scores
