"""Agreement of two ways of running the same job: paired errors, their intervals, strict verdicts, rankings. Pure.

A pair is one seed run both ways, and has one error; a case has as many errors as seeds. The verdict concerns the 95 %
interval of their median, not the median: with too few pairs, or an interval that contains the bound, nothing is shown
either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from math import copysign, inf, isinf, isnan, nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.measures.small_samples import median
from analysis.measures.stats import interval

TOLERANCE_FRAC = 0.05
"""Relative errors up to this count as agreement, and strategies that differ by no more as equally fast."""
CASE, SIDE = ["straggler", "strategy"], "side"
SIDES = ("live", "virtual", "again", "slowed", "paced", "probed")
"""Ways of running a case: a second live run of the seed, a virtual one on devices that are 1 % slower, one on
processors that are as fast as this machine's were live, one on processors whose speed follows the memory's."""
PACED, PROBED = FOLLOWING = SIDES[-2:]
"""Virtual runs whose settings follow from the live run of the seed."""
PAIRS = {
    "": ("live", "virtual"),
    "again_": ("live", "again"),
    "slowed_": ("virtual", "slowed"),
    "paced_": ("live", PACED),
    "probed_": ("live", PROBED),
}
"""The sides that are compared, by the prefix of their columns."""
ROUNDING = 1e-9
ENOUGH = 5
"""Minimum number of pairs for a 95 % interval: the median's interval of five spans the smallest to the largest
(1 - 2 / 2^5 = 94 %), of four it would have 88 %."""
WITHIN, OFF, UNCLEAR = "yes", "NO", "inconclusive"
"""The interval is within the tolerance; it is entirely outside, on one side; neither."""


class Agreement(NamedTuple):
    """Agreement on one measure of one case.

    ``error``: the median of the paired errors; ``low`` and ``high``: its 95 % interval (NaN for fewer than two pairs);
    ``worst``: the largest error by size; ``pairs``: their number; ``verdict``: None without a pair.
    """

    error: float
    low: float
    high: float
    worst: float
    pairs: int
    verdict: str | None


def relative(live: float, virtual: float) -> float:
    """The relative error; infinite if only one of the two times is infinite, NaN if both are."""
    if isinf(live) or isnan(virtual):
        return nan if isinf(virtual) or isnan(virtual) else -1.0
    if live == 0:
        return copysign(inf, virtual) if virtual else 0.0
    return virtual / live - 1.0


def agreement(errors: Iterable[float], tolerance_frac: float = TOLERANCE_FRAC) -> Agreement:
    """Agreement from the errors of all pairs; NaN (neither side finished) does not count as a pair."""
    known = [error for error in errors if not isnan(error)]
    low, high = interval(known)
    worst = max(known, key=abs, default=nan)
    return Agreement(median(known), low, high, worst, len(known), judge(low, high, len(known), tolerance_frac))


def judge(low: float, high: float, pairs: int, tolerance_frac: float = TOLERANCE_FRAC) -> str | None:
    """The verdict on the interval of ``pairs`` errors; None without pairs."""
    if not pairs:
        return None
    bound = tolerance_frac + ROUNDING
    if pairs < ENOUGH or isnan(low) or isnan(high):
        return UNCLEAR
    if -bound <= low and high <= bound:
        return WITHIN
    return OFF if low > bound or high < -bound else UNCLEAR


def cases(runs: pd.DataFrame, measure: str, tolerance_frac: float = TOLERANCE_FRAC) -> pd.DataFrame:
    """A row per case, in the order of ``runs``, which have ``CASE``, ``SIDE``, ``seed`` and the measure.

    ``measure``, ``seeds`` (number of live runs); of both ``live`` and ``virtual`` the median over the seeds (of
    ``staleness_max`` the largest; infinite: a time that was not reached) and ``_missed`` (seeds with an infinite time);
    for each of ``PAIRS`` the fields of :class:`Agreement`, those of second live runs by the size of the error.
    """
    rows = []
    for case, mine in runs.groupby(CASE, sort=False):
        at = {side: group.set_index("seed")[measure].sort_index() for side, group in mine.groupby(SIDE)}
        row = {**dict(zip(CASE, case, strict=True)), "measure": measure, "seeds": len(at["live"])}
        for side in SIDES[:2]:
            row[side] = float((max if measure == "staleness_max" else median)(at[side]))
            row[f"{side}_missed"] = int(at[side].map(isinf).sum())
        for prefix, (one, other) in PAIRS.items():
            errors = [relative(at[one][seed], value) for seed, value in at.get(other, pd.Series()).items()]
            found = agreement(map(abs, errors) if other == "again" else errors, tolerance_frac)
            row |= {f"{prefix}{name}": value for name, value in found._asdict().items()}
        rows.append(row)
    return pd.DataFrame(rows)


# ---- ranking --------------------------------------------------------------------------------------------------------


class Order(NamedTuple):
    """The ranking of the strategies under one pattern.

    ``live`` and ``virtual``: the rankings as text, fastest first; ``pairs``: pairs of strategies that live runs
    distinguish, and of these ``kept``, ``swapped`` (named) and ``undecided`` (named); ``verdict`` is None if live runs
    distinguish no pair.
    """

    live: str
    virtual: str
    pairs: int
    kept: int
    swapped: str
    undecided: str
    verdict: str | None


def order(live: pd.DataFrame, virtual: pd.DataFrame, tolerance_frac: float = TOLERANCE_FRAC) -> Order:
    """Whether both rank the strategies alike.

    Live runs distinguish two strategies if the interval of the ratio of their times under the same seed lies beyond the
    tolerance. Virtual runs keep that order if the interval of their ratio lies on the same side of one; they swap it if
    the interval lies on the other side or equals one; otherwise they leave it undecided.

    Args:
        live: times in seconds, a row per seed, a column per strategy; infinite if it never finished.
        virtual: the same, with the same rows and columns.
        tolerance_frac: relative difference that counts as equally fast.
    """
    distinguished = [pair for one in combinations(live.columns, 2) if (pair := _distinguish(live, one, tolerance_frac))]
    found: dict[str, list[str]] = {WITHIN: [], OFF: [], UNCLEAR: []}
    for fast, slow in distinguished:
        low, high = _ratio(virtual, fast, slow)
        side = UNCLEAR if isnan(low) else WITHIN if low > 1 + ROUNDING else OFF if high <= 1 + ROUNDING else UNCLEAR
        found[side].append(f"{fast} / {slow}")
    verdict = None if not distinguished else OFF if found[OFF] else UNCLEAR if found[UNCLEAR] else WITHIN
    texts = [ranking_text({str(name): median(frame[name].dropna()) for name in frame}) for frame in (live, virtual)]
    swapped, undecided = ", ".join(found[OFF]), ", ".join(found[UNCLEAR])
    return Order(texts[0], texts[1], len(distinguished), len(found[WITHIN]), swapped, undecided, verdict)


def _distinguish(times: pd.DataFrame, pair: tuple[Any, Any], tolerance_frac: float) -> tuple[Any, Any] | None:
    """The pair, the faster one first, if the interval of their ratio says so."""
    for fast, slow in (pair, pair[::-1]):
        low, _ = _ratio(times, fast, slow)
        if low > 1 + tolerance_frac + ROUNDING:
            return fast, slow
    return None


def _ratio(times: pd.DataFrame, fast: Any, slow: Any) -> tuple[float, float]:
    """Interval of the paired ratio slow / fast; NaN with too few pairs."""
    with np.errstate(invalid="ignore"):
        ratios = (times[slow].to_numpy(dtype="float64") / times[fast].to_numpy(dtype="float64")).tolist()
    known = [ratio for ratio in ratios if not isnan(ratio)]
    return interval(known) if len(known) >= ENOUGH else (nan, nan)


def ranking_text(values: dict[str, float]) -> str:
    """``asp < ssp = bsp`` by their values; unfinished ones come last and are marked, missing ones are left out."""
    names = sorted((name for name in values if not isnan(values[name])), key=lambda name: values[name])
    steps: Sequence[str] = ["", *(" = " if values[a] == values[b] else " < " for a, b in pairwise(names))]
    return "".join(step + name + " (never)" * isinf(values[name]) for step, name in zip(steps, names, strict=False))
