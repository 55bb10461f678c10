"""A median and its interval over few seeds: Student's t, or order statistics where a run never ended."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, nan

import numpy as np

CONFIDENCE = 0.95


def median(values: Iterable[float]) -> float:
    """The median, infinite if half of the values are; NaN for no values."""
    array = np.asarray(list(values), dtype="float64")
    return float(np.median(array)) if len(array) else nan


def interval(values: Iterable[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Interval of a measure over other seeds; (NaN, NaN) for fewer than two values.

    Finite values: Student's t for their mean, extended to include their median. A bootstrap of the median would at most
    span from the smallest to the largest of five values, which covers 94 % (of three: 75 %). If some values are
    infinite (a job that was cut off): the median's order statistics, exact, and unbounded for fewer than six values.
    Identical values: that value, twice.
    """
    array = np.sort(np.asarray(list(values), dtype="float64"))
    if len(array) < 2 or np.isnan(array).any():
        return nan, nan
    if array[0] == array[-1]:
        return float(array[0]), float(array[0])
    return student(array, confidence) if np.isfinite(array).all() else order_statistics(array, confidence)


def interval_of_times(values: Iterable[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The same for factors (times, their ratios; 0 or more): of the logarithms, so never below 0."""
    with np.errstate(divide="ignore"):  # of 0, the ratio to a job that never ended: -inf
        low, high = interval(np.log(np.asarray(list(values), dtype="float64")), confidence)
    return float(np.exp(low)), float(np.exp(high))


def student(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """Mean +- t s / sqrt(n), extended to include the median."""
    from scipy.special import stdtrit  # scipy.stats.t.ppf calls this, but takes 0.4 s to import

    half = stdtrit(len(values) - 1, 0.5 + confidence / 2) * values.std(ddof=1) / np.sqrt(len(values))
    mean, middle = values.mean(), np.median(values)
    return float(min(mean - half, middle)), float(max(mean + half, middle))


def narrowing(values: int, more: int, confidence: float = CONFIDENCE) -> float:
    """The width of Student's interval of ``more`` values over its width for ``values``, at the same spread."""
    from scipy.special import stdtrit

    now, then = (stdtrit(number - 1, 0.5 + confidence / 2) / np.sqrt(number) for number in (values, more))
    return float(then / now)


def order_statistics(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """The k-th sorted value from either end, with the largest k that misses the median rarely enough."""
    from scipy.stats import binom

    k = int(binom.ppf((1.0 - confidence) / 2, len(values), 0.5))
    return (float(values[k - 1]), float(values[-k])) if k else (-inf, inf)
