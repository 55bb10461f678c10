"""Rank strategies by repeated jobs, each under the same resampled histories as the present strategy."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.measures.distinguishing import SAME_FRAC

CONFIDENCE = 0.95
LOGGED = -1
"""The history as it was logged; others are resampled, with their number as the seed."""


class Ranked(NamedTuple):
    """One strategy: its time under the logged history, relative to the present one's, and the interval over others."""

    strategy: str
    ratio: float
    low: float
    high: float
    jct_s: float
    staleness: float
    """Mean, in updates."""
    update_frac: float
    """Samples of an update, of the global batch."""
    dropped_frac: float
    """Of all gradients."""
    unfinished: int
    """Histories in which it did not finish; such a job counts as infinitely long."""

    @property
    def verdict(self) -> str:
        """What the interval shows: faster, slower, the same (within 1 %), or not distinguishable."""
        if isnan(self.low):
            return "one history only"
        if self.low > 1.0 - SAME_FRAC and self.high < 1.0 + SAME_FRAC:
            return "the same"
        return "faster" if self.high < 1.0 else "slower" if self.low > 1.0 else "not distinguishable"


def ranked(jobs: pd.DataFrame, present: str) -> list[Ranked]:
    """Strategies from the fastest to the slowest, by the ratio under the history that was logged.

    The interval has 95 % of the ratios over the resampled histories (percentile bootstrap), so it is that of another
    job of this length on this cluster.

    Args:
        jobs: a row per strategy and history: ``strategy``, ``history`` (:data:`LOGGED`, or the number of a resampled
            one), ``jct_s`` (infinite: did not finish), ``staleness``, ``update_frac``, ``dropped_frac``.
        present: the strategy that others are relative to.
    """
    base = jobs[jobs["strategy"] == present].set_index("history")["jct_s"]
    rows = jobs.groupby("strategy", sort=False)
    return sorted((_one(str(name), group, base, name == present) for name, group in rows), key=lambda one: one.ratio)


def _one(name: str, rows: pd.DataFrame, base: pd.Series, is_present: bool) -> Ranked:
    times = rows.set_index("history")["jct_s"]
    ratios = times / base.reindex(times.index)
    others = ratios.drop(LOGGED).dropna().to_numpy("float64")
    low, high = (nan, nan) if len(others) < 2 or is_present else _ends(others)
    return Ranked(
        strategy=name,
        ratio=float(ratios[LOGGED]),
        low=low,
        high=high,
        jct_s=float(times[LOGGED]),
        staleness=float(rows["staleness"].median()),
        update_frac=float(rows["update_frac"].median()),
        dropped_frac=float(rows["dropped_frac"].median()),
        unfinished=int(np.isinf(times).sum()),
    )


def _ends(ratios: np.ndarray) -> tuple[float, float]:
    tail = (1.0 - CONFIDENCE) / 2.0
    ends: Sequence[float] = np.quantile(ratios, [tail, 1.0 - tail], method="inverted_cdf").tolist()
    return ends[0], ends[1]
