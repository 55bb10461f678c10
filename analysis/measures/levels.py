"""Whole steps of a log without ranks: its warm-up, and the levels that its steps keep for a while."""

from __future__ import annotations

from bisect import insort
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
WARMER = 3
"""A step of the warm-up is compared with so many steps after it."""
FEWEST, LEAST_FRAC = 3, 0.05
"""A level has so many steps, and such a part of all, at least."""
MIXED_FRAC = 0.2
"""Part of the steps of two levels that may lie on the other one's side."""
EVIDENCE, APART = 2.9, 8.0
"""Two levels differ by so many standard deviations of their steps' rank sum, or by so many mean deviations."""
MOST_BLOCKS = 400
"""A longer log is divided into so many blocks of steps, which their medians stand for."""


def warm_up(seconds: Floats, slow_frac: float) -> int:
    """How many steps at the beginning are longer than the next steps, by this part or more."""
    count = 0
    while count + WARMER < len(seconds):
        if seconds[count] <= (1.0 + slow_frac) * float(np.median(seconds[count + 1 : count + 1 + WARMER])):
            break
        count += 1
    return count


def levels(seconds: Floats, slow_frac: float) -> list[tuple[int, int]]:
    """[start, end) of stretches whose medians differ by this part or more from the stretch before.

    Binary segmentation by the sum of absolute deviations of logarithms, so that single long steps change nothing; then
    neighbours that chance would tell apart, too, become one, the most alike first.
    """
    size = max(1, ceil(len(seconds) / MOST_BLOCKS))
    blocks = np.log([np.median(seconds[start : start + size]) for start in range(0, len(seconds), size)])
    bounds = [0, *_divide(blocks, max(FEWEST, ceil(LEAST_FRAC * len(blocks))), 0), len(blocks)]
    while len(bounds) > 2:
        pairs = list(pairwise([blocks[start:end] for start, end in pairwise(bounds)]))
        apart = [abs(float(np.median(after) - np.median(before))) for before, after in pairs]
        alike = [place for place, pair in enumerate(pairs) if not _differ(*pair, float(np.log1p(slow_frac)))]
        if not alike:
            break
        del bounds[1 + min(alike, key=apart.__getitem__)]
    return [(size * start, min(size * end, len(seconds))) for start, end in pairwise(bounds)]


def _divide(values: Floats, fewest: int, offset: int) -> list[int]:
    """All ends of levels that there may be."""
    if len(values) < 2 * fewest:
        return []
    cost = _costs(values) + np.append(_costs(values[::-1])[::-1][1:], 0.0)  # of the first ones, and of the others
    place = fewest + int(np.argmin(cost[fewest - 1 : len(values) - fewest]))
    return [
        *_divide(values[:place], fewest, offset),
        offset + place,
        *_divide(values[place:], fewest, offset + place),
    ]


def _differ(before: Floats, after: Floats, least: float) -> bool:
    """Whether two neighbours are levels: nearly all steps of one are longer than nearly all steps of the other."""
    low, high = sorted((float(np.median(before)), float(np.median(after))))
    if high - low < least:
        return False
    middle, falls = (low + high) / 2, float(np.median(before)) == high
    wrong = np.concatenate([(before > middle) != falls, (after > middle) == falls])
    if float(wrong.mean()) > MIXED_FRAC:
        return False
    spread = float(np.mean(np.concatenate([np.abs(each - np.median(each)) for each in (before, after)])))
    return high - low > APART * spread or abs(_rank_sum(before, after)) >= EVIDENCE


def _costs(values: Floats) -> Floats:
    """[n] the sum of absolute deviations from their median of the first values up to each."""
    ordered, costs = list[float](), np.empty(len(values))
    for place, value in enumerate(values.tolist()):
        insort(ordered, value)
        half = (place + 1) // 2
        costs[place] = sum(ordered[place + 1 - half :]) - sum(ordered[:half])
    return costs


def _rank_sum(before: Floats, after: Floats) -> float:
    """Wilcoxon's rank sum of the first ones, in its standard deviations from equality; equal values share ranks."""
    both, first, other = np.concatenate([before, after]), len(before), len(after)
    ordered = np.sort(both)
    ranks = (np.searchsorted(ordered, before, "left") + np.searchsorted(ordered, before, "right") + 1) / 2
    expected, variance = first * (len(both) + 1) / 2, first * other * (len(both) + 1) / 12
    return float((ranks.sum() - expected) / np.sqrt(variance))
