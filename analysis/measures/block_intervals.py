"""The interval of a ratio of two sums over time, from how much neighbouring blocks of time differ.

The point is the ratio of the sums themselves, and the interval lies around it. Differences from one block to the next
are chance (jitter, and when short slow phases fell); a change that happens once in a log, as a host that is slow from
some step on, is in both of nearly all neighbours and counts as given. This is the estimator by successive differences
of systematic samples (Wolter, Introduction to Variance Estimation, chapter 8).
"""

from __future__ import annotations

from math import exp, inf, isfinite, nan, sqrt

import numpy as np
from scipy.special import stdtrit

from analysis.measures.slow_steps import Floats

CONFIDENCE = 0.95
MOST_BLOCKS, FEWEST_BLOCKS = 40, 4
MOST_REACH = 100.0
"""Largest logarithm of a ratio: beyond that nothing is known of the ratio."""


def ratio_interval(tops: Floats, bottoms: Floats) -> tuple[float, float]:
    """The 95 % interval of ``sum(tops) / sum(bottoms)``, both [blocks]; NaN of fewer than four blocks."""
    count, ratio = len(tops), float(tops.sum() / bottoms.sum())
    if count < FEWEST_BLOCKS or not isfinite(ratio) or ratio <= 0:
        return nan, nan
    left = np.diff(tops - ratio * bottoms)
    error = sqrt(count / (2.0 * (count - 1)) * float((left**2).sum())) / float(tops.sum())
    reach = float(stdtrit(max(2.0, 2.0 * (count - 1) / 3.0), 0.5 + CONFIDENCE / 2.0)) * error
    return (ratio * exp(-reach), ratio * exp(reach)) if reach < MOST_REACH else (0.0, inf)


def in_blocks(values: Floats, length: int) -> Floats:
    """[blocks] sums of equally many steps, in at most forty blocks; remaining steps belong to the last block."""
    length = max(length, -(-len(values) // MOST_BLOCKS))
    starts = np.arange(0, max(1, len(values) - length + 1), length)
    return np.asarray(np.add.reduceat(values, starts))
