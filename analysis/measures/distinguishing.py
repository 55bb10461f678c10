"""Is one strategy faster than another at the seeds that were run? If they cannot show it, how many would it take?"""

from __future__ import annotations

from collections.abc import Iterable
from math import nan
from typing import Literal, NamedTuple

import numpy as np

from analysis.measures.small_samples import interval_of_times

Verdict = Literal["faster", "slower", "the same", "not distinguishable", "too few seeds"]
SIGNIFICANCE = 0.05
POWER = 0.8
MOST_SEEDS = 10_000
ROUNDING = 1e-9
SAME_FRAC = 0.01
"""A difference that does not matter, however certain it is."""


class Distinction(NamedTuple):
    """Ratio of two times over paired seeds, its 95 % interval, and what follows from it.

    ``seeds_needed``: with as many pairs, an effect and a spread like these would be seen in 80 % of all repetitions;
    0 where that is not known (fewer than two pairs, runs that never ended). ``coarse``: the difference is less than
    what the times are measured by, so more seeds would not show it.
    """

    ratio: float
    low: float
    high: float
    pairs: int
    verdict: Verdict
    seeds_needed: int
    coarse: bool = False


def distinguish(ratios: Iterable[float], coarse_frac: float = 0.0) -> Distinction:
    """Judge ratios of a time to the baseline's, one per seed; below 1 is faster.

    The interval is computed from the logarithms (Student's t, extended to their median), so that twice and half as long
    count alike; with runs that never ended, the median's order statistics. All of it within 1 % of 1 is the same,
    however certain the difference is. Times that are only known to ``coarse_frac`` of the baseline's are not
    distinguishable by less than that.
    """
    array = np.asarray(list(ratios), dtype="float64")
    if len(array) < 2:
        return Distinction(float(array[0]) if len(array) else nan, nan, nan, len(array), "too few seeds", 0)
    low, high = interval_of_times(array)
    with np.errstate(divide="ignore"):
        needed = seeds_needed(np.log(array))
    ratio, verdict = float(np.median(array)), _verdict(low, high)
    coarse = abs(ratio - 1.0) < coarse_frac * (1.0 - ROUNDING) and (verdict != "the same" or coarse_frac > SAME_FRAC)
    if coarse:
        return Distinction(ratio, low, high, len(array), "not distinguishable", 0, coarse)
    return Distinction(ratio, low, high, len(array), verdict, needed)


def _verdict(low: float, high: float) -> Verdict:
    if low > 1.0 - SAME_FRAC and high < 1.0 + SAME_FRAC:
        return "the same"
    return "faster" if high < 1.0 else "slower" if low > 1.0 else "not distinguishable"


def seeds_needed(differences: np.ndarray, power: float = POWER, significance: float = SIGNIFICANCE) -> int:
    """Number of pairs with which a paired t test finds a mean difference like this one.

    Args:
        differences: one per pair.
        power: probability of finding it.
        significance: of the test, two-sided.

    Returns:
        At least 2; 0 where that is unknown, and ``MOST_SEEDS`` where as many would not do.
    """
    if len(differences) < 2 or not np.isfinite(differences).all():
        return 0
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    if spread == 0.0:
        return 2 if mean else MOST_SEEDS
    return _pairs(abs(mean) / spread, power, significance)


def _pairs(effect: float, power: float, significance: float) -> int:
    """Bisect the number of pairs, since the power grows with it."""
    low, high = 1, 2
    while high < MOST_SEEDS and power_of(effect, high, significance) < power:
        low, high = high, min(2 * high, MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_of(effect, middle, significance) >= power else (middle, high)
    return high


def power_of(effect: float, pairs: int, significance: float = SIGNIFICANCE) -> float:
    """Power of a two-sided paired t test for a standardised mean difference (noncentral t)."""
    from scipy.special import nctdtr, stdtrit  # scipy.stats takes 0.3 s more to import

    shift = effect * pairs**0.5
    critical = stdtrit(pairs - 1, 1.0 - significance / 2)
    below, least = np.nan_to_num(nctdtr(pairs - 1, shift, [critical, -critical]))  # NaN so far below the shift: none
    return float(1.0 - below + least)
