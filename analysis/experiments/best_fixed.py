"""Systems that choose against the best fixed one of every cell, by seed (pure)."""

from __future__ import annotations

from math import exp, nan

import numpy as np
import pandas as pd

from analysis.claims.answers import by_seed
from analysis.experiments.results import Results
from analysis.measures.small_samples import interval, median

WIN, LOSS, EVEN = "sooner", "later", "undecided"


def against_best(results: Results) -> pd.DataFrame:
    """One row per cell and system.

    The other axes of the experiment; the system (its axis is ``figure.by``) and whether it is ``fixed``; its
    ``value`` (median of ``figure.value``); ``best``, the fixed system with the least median in the cell, and
    ``best_value``; ``ratio``: the median over the seeds of its value over the best one's, with ``low`` and ``high``
    (95 %, on logarithms); ``verdict``: the interval lies below 1 (``sooner``), above (``later``), or neither. The
    best is picked by the same seeds that it is compared with, which favours it a little.
    """
    drawn, rows = results.spec.figure, []
    others = [axis for axis in results.spec.compared_axes if axis != drawn.by]
    groups = results.runs.groupby(others, sort=False) if others else [((), results.runs)]
    for levels, group in groups:
        cell = dict(zip(others, levels, strict=True))
        values = {name: by_seed(group, {drawn.by: name}, drawn.value) for name in results.spec.axes[drawn.by]}
        middles = {name: median(each) for name, each in values.items() if len(each)}
        known = [name for name in drawn.fixed if name in middles]
        if not known:
            continue
        best = min(known, key=lambda name: middles[name])
        for name, middle in middles.items():
            ratio, low, high = quotient(values[name], values[best])
            verdict = WIN if high < 1 else LOSS if low > 1 else EVEN
            row = {**cell, drawn.by: name, "fixed": name in drawn.fixed, "value": middle, "best": best}
            rows.append(
                row | {"best_value": middles[best], "ratio": ratio, "low": low, "high": high, "verdict": verdict}
            )
    return pd.DataFrame(rows)


def quotient(ours: pd.Series, best: pd.Series) -> tuple[float, float, float]:
    """Median and interval of the ratio by seed; where the best never got there either, there is no ratio."""
    ours, best = ours.align(best, join="inner")
    there = np.isfinite(best)
    ratios = (ours[there] / best[there]).to_numpy("float64")
    if not len(ratios):
        return nan, nan, nan
    if not np.isfinite(ratios).all():
        low, high = interval(ratios)
        return median(pd.Series(ratios)), low, high
    low, high = (exp(end) for end in interval(np.log(ratios)))
    middle = median(pd.Series(ratios))
    return middle, min(low, middle), max(high, middle)


def counts(table: pd.DataFrame, by: str, tolerance_frac: float = 0.05) -> pd.DataFrame:
    """Count for each adaptive system: ``cells``, ``within`` (ratio at most 1 + tolerance), ``sooner``, ``later``."""
    chosen = table[~table["fixed"]]
    groups = chosen.groupby(by, sort=False)
    return pd.DataFrame(
        {
            "cells": groups.size(),
            "within": groups["ratio"].agg(lambda ratio: int((ratio <= 1 + tolerance_frac).sum())),
            "sooner": groups["verdict"].agg(lambda verdict: int((verdict == WIN).sum())),
            "later": groups["verdict"].agg(lambda verdict: int((verdict == LOSS).sum())),
        }
    )
