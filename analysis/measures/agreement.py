"""How far two ways of running the same job agree: paired errors, their intervals, strict verdicts, orders. Pure.

A pair is one seed run both ways. An error is that of a pair; a case has as many as it has seeds, and the verdict is
about the 95 % interval of their median, not about the median: with too few pairs, or an interval that straddles the
bound, nothing is shown either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from math import copysign, inf, isinf, isnan, nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.measures.stats import interval, median

TOLERANCE_FRAC = 0.05
"""Relative errors up to this count as agreement, and strategies that are no further apart as equally fast."""
ROUNDING = 1e-9
ENOUGH = 5
"""Pairs without which there is no interval of 95 %: that of the median of five reaches from the least to the largest
(1 - 2 / 2^5 = 94 %), of four it would have 88 %."""
WITHIN, OFF, UNCLEAR = "yes", "NO", "inconclusive"
"""The interval is within the tolerance; all of it is outside, on one side; neither."""


class Agreement(NamedTuple):
    """Of one measure of one case.

    ``error``: the median of the paired errors, ``low`` and ``high`` its 95 % interval (not a number with fewer than
    two pairs), ``worst`` the error of the pair that is off the most, ``pairs`` their number; ``verdict`` is None where
    there is no pair.
    """

    error: float
    low: float
    high: float
    worst: float
    pairs: int
    verdict: str | None


def relative(live: float, virtual: float) -> float:
    """The relative error; one infinite time beside a finite one is as wrong as can be, of two there is no error."""
    if isinf(live) or isnan(virtual):
        return nan if isinf(virtual) or isnan(virtual) else -1.0
    if live == 0:
        return copysign(inf, virtual) if virtual else 0.0
    return virtual / live - 1.0


def agreement(errors: Iterable[float], tolerance_frac: float = TOLERANCE_FRAC) -> Agreement:
    """Of the errors of all pairs; those that are not a number (neither side got there) are no pairs."""
    known = [error for error in errors if not isnan(error)]
    low, high = interval(known)
    worst = max(known, key=abs, default=nan)
    return Agreement(median(known), low, high, worst, len(known), judge(low, high, len(known), tolerance_frac))


def judge(low: float, high: float, pairs: int, tolerance_frac: float = TOLERANCE_FRAC) -> str | None:
    """A verdict about the interval of ``pairs`` errors; None where there are none."""
    if not pairs:
        return None
    bound = tolerance_frac + ROUNDING
    if pairs < ENOUGH or isnan(low) or isnan(high):
        return UNCLEAR
    if -bound <= low and high <= bound:
        return WITHIN
    return OFF if low > bound or high < -bound else UNCLEAR


# ---- order ----------------------------------------------------------------------------------------------------------


class Order(NamedTuple):
    """Of the strategies under one pattern.

    ``live`` and ``virtual``: the strategies in words, fastest first; ``pairs`` of strategies that live runs tell
    apart, and of these ``kept``, ``swapped`` (named) and ``undecided`` (named); ``verdict`` is None where live runs
    tell nobody apart.
    """

    live: str
    virtual: str
    pairs: int
    kept: int
    swapped: str
    undecided: str
    verdict: str | None


def order(live: pd.DataFrame, virtual: pd.DataFrame, tolerance_frac: float = TOLERANCE_FRAC) -> Order:
    """Whether the strategies come in the same order.

    Live runs tell two strategies apart when the interval of the ratio of their times under the same seed lies beyond
    the tolerance. Virtual runs keep that order when the interval of their ratio lies on the same side of one; they swap
    it when it lies on the other side or they make both equal; otherwise they leave it undecided.

    Args:
        live: times in seconds, a row for each seed, a column for each strategy; infinite where it never got there.
        virtual: likewise, the same rows and columns.
        tolerance_frac: what counts as equally fast.
    """
    apart = [pair for one in combinations(live.columns, 2) if (pair := _apart(live, one, tolerance_frac))]
    found: dict[str, list[str]] = {WITHIN: [], OFF: [], UNCLEAR: []}
    for fast, slow in apart:
        low, high = _ratio(virtual, fast, slow)
        side = UNCLEAR if isnan(low) else WITHIN if low > 1 + ROUNDING else OFF if high <= 1 + ROUNDING else UNCLEAR
        found[side].append(f"{fast} / {slow}")
    verdict = None if not apart else OFF if found[OFF] else UNCLEAR if found[UNCLEAR] else WITHIN
    said = [in_words({str(name): median(frame[name].dropna()) for name in frame}) for frame in (live, virtual)]
    swapped, undecided = ", ".join(found[OFF]), ", ".join(found[UNCLEAR])
    return Order(said[0], said[1], len(apart), len(found[WITHIN]), swapped, undecided, verdict)


def _apart(times: pd.DataFrame, pair: tuple[Any, Any], tolerance_frac: float) -> tuple[Any, Any] | None:
    """The two, the faster one first, when every plausible ratio says so."""
    for fast, slow in (pair, pair[::-1]):
        low, _ = _ratio(times, fast, slow)
        if low > 1 + tolerance_frac + ROUNDING:
            return fast, slow
    return None


def _ratio(times: pd.DataFrame, fast: Any, slow: Any) -> tuple[float, float]:
    """Interval of the paired ratio slow / fast; not a number with too few pairs."""
    with np.errstate(invalid="ignore"):
        ratios = (times[slow].to_numpy(dtype="float64") / times[fast].to_numpy(dtype="float64")).tolist()
    known = [ratio for ratio in ratios if not isnan(ratio)]
    return interval(known) if len(known) >= ENOUGH else (nan, nan)


def in_words(values: dict[str, float]) -> str:
    """``asp < ssp = bsp`` of their values; who never got there is last and says so, who has none is left out."""
    names = sorted((name for name in values if not isnan(values[name])), key=lambda name: values[name])
    steps: Sequence[str] = ["", *(" = " if values[a] == values[b] else " < " for a, b in pairwise(names))]
    return "".join(step + name + " (never)" * isinf(values[name]) for step, name in zip(steps, names, strict=False))
