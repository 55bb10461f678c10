"""Which rank was slow in which step of a log, and how slow ranks usually are: robust, and relative to the others."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, sin, sqrt

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SLOW_FRAC = 0.1
"""Minimum part by which a slow step exceeds a usual one."""
SIGMAS = 4.0
"""Minimum number of robust standard deviations by which it does, of the logarithms."""
QUICK = 0.25
"""Quantile of the ranks that a step is compared with: three quarters of them may be slow at the same time."""
ROUNDS = 4
MAD_SIGMA = 1.4826
PERSISTENT_FRAC = 0.8
"""Part of its steps in which a persistent straggler is slow, at least."""
FEWEST_STEPS = 3
FEWEST_FRAC = 0.02
"""A straggler is slow in so many steps and in this part of them, at least; fewer are single events."""
FEWEST_PAIRS = 10


@dataclass(frozen=True)
class SlowSteps:
    """Steps of a log, divided into usual and slow ones.

    ``slow``: [steps, ranks]. ``base_s``: [ranks] mean seconds of a usual step; of a rank that is never as quick as
    others, their median. ``usual_s``: the median of these. ``shared``: [steps] how long a step was for all. ``sigma``,
    ``rho``: standard deviation and AR(1) coefficient of the logarithms of usual steps around that. ``excess``: [steps,
    ranks] seconds / (base * shared) - 1 of slow steps, else 0. ``since``: [ranks] position of the step from which a
    rank is slow by its machine's fault; -1 of all others.
    """

    slow: Bools
    base_s: Floats
    usual_s: float
    shared: Floats
    sigma: float
    rho: float
    excess: Floats
    since: NDArray[np.int64]

    @property
    def slow_frac(self) -> Floats:
        """[ranks] part of the steps in which each was slow."""
        return np.asarray(self.slow.mean(axis=0))

    @property
    def persistent(self) -> Bools:
        """[ranks] slow nearly always."""
        return np.asarray(self.slow_frac >= PERSISTENT_FRAC)

    @property
    def stragglers(self) -> Bools:
        """[ranks] slow more than now and then."""
        return np.asarray((self.slow.sum(axis=0) >= FEWEST_STEPS) & (self.slow_frac >= FEWEST_FRAC))


def slow_steps(own_s: Floats, slow_frac: float = SLOW_FRAC) -> SlowSteps:
    """Compare every step of every rank with the quicker ranks of that step, and with what is usual for that rank.

    A rank whose offset from the others is as large as a slow step's, or that is slow nearly always, is compared with
    the others only: else the few steps that are left would say what is usual. All else is in logarithms, so that twice
    and half as long count alike, and outliers have no weight (medians).

    Args:
        own_s: [steps, ranks] seconds, NaN where unknown.
        slow_frac: part by which a slow step exceeds a usual one, at least.
    """
    logs = np.log(own_s)
    least = log(1.0 + slow_frac)
    shared = quick(logs)
    offset = _centre(np.nanmedian(logs - shared[:, None], axis=0), least)
    slow = np.zeros(own_s.shape, bool)
    for turn in range(ROUNDS):
        shared = quick(logs - offset)
        over = logs - offset - shared[:, None]
        usual = np.where(slow, np.nan, over)
        over = over - _level(usual)
        sigma = _spread(over, slow)
        if turn:  # nearly all slow steps are known by now
            sigma = max(sigma, _sigma(_residuals(np.where(slow, np.nan, logs))))
        slow = np.nan_to_num(over, nan=0.0) > max(least, SIGMAS * sigma)
        rows = np.where(slow, np.nan, logs - shared[:, None])
        offset = _centre(_medians(rows, logs - shared[:, None]), least)
        offset[slow.sum(axis=0) >= PERSISTENT_FRAC * (~np.isnan(logs)).sum(axis=0)] = 0.0
    return _describe(own_s, slow, offset)


def _level(usual: Floats) -> float:
    """The level of usual steps, measured on the quicker ranks, since half of the ranks or more may always be slow."""
    known = usual[:, ~np.isnan(usual).all(axis=0)]
    return float(np.quantile(np.nanmedian(known, axis=0), QUICK, method="lower"))


def _spread(over: Floats, slow: Bools) -> float:
    """Standard deviation of usual steps although it is not known which are usual.

    Few of the short steps are slow ones, and few steps are slow where the last one was not. The larger one counts,
    since the level of a step is noisy among few ranks.
    """
    below = over[np.isfinite(over) & (over < 0) & ~slow]
    changes = np.diff(over, axis=0)
    changes = changes[np.isfinite(changes)]
    half = float(np.median(-below)) if len(below) else 0.0
    return MAD_SIGMA * max(half, float(np.median(np.abs(changes))) / sqrt(2.0) if len(changes) else 0.0)


def quick(values: Floats) -> Floats:
    """[steps] the level of the quicker ranks: the lower quartile, one of the values; NaN where none is known."""
    known = (~np.isnan(values)).sum(axis=1)
    places = np.floor(QUICK * np.maximum(known - 1, 0)).astype(np.int64)
    return np.asarray(np.sort(values, axis=1)[np.arange(len(values)), places])  # NaN is sorted last


def _medians(rows: Floats, instead: Floats) -> Floats:
    """[ranks] medians of the columns; a column without values has the median of ``instead``."""
    none = np.isnan(rows).all(axis=0)
    return np.asarray(np.nanmedian(np.where(none, instead, rows), axis=0))


def _centre(offset: Floats, least: float) -> Floats:
    """Offsets of ranks from the quicker ones; 0 for ranks that are as slow as a slow step: those are stragglers."""
    offset = offset - float(np.quantile(offset, QUICK, method="lower"))
    return np.where(offset > least, 0.0, offset)


def _describe(own_s: Floats, slow: Bools, offset: Floats) -> SlowSteps:
    usual = np.where(slow, np.nan, own_s)
    level = np.nanmedian(np.where(slow, np.nan, np.log(own_s) - offset), axis=1)
    level = np.where(np.isnan(level), np.nanmedian(level), level)
    shared = np.exp(level - np.log(np.nanmean(np.exp(level))))
    some = (~np.isnan(usual)).sum(axis=0) >= min(FEWEST_STEPS, len(own_s))
    base_s = np.full(own_s.shape[1], np.nan)
    base_s[some] = np.nanmean(usual[:, some] / shared[:, None], axis=0)
    usual_s = float(np.nanmedian(base_s))
    base_s = np.where(np.isnan(base_s), usual_s, base_s)
    persistent = slow.mean(axis=0) >= PERSISTENT_FRAC
    if not persistent.all():
        usual_s = float(np.median(base_s[~persistent]))
        base_s = np.where(persistent, usual_s, base_s)
    left = _residuals(np.where(slow, np.nan, np.log(own_s)))
    sigma = _sigma(left)
    rho = _rho(left) if sigma else 0.0
    ratio = own_s / (base_s * shared[:, None]) - 1.0
    excess = np.where(slow, np.nan_to_num(ratio, nan=0.0).clip(min=0.0), 0.0)
    return SlowSteps(slow, base_s, usual_s, shared, sigma, rho, excess, np.where(persistent, 0, -1))


def _residuals(logs: Floats) -> Floats:
    """[steps, ranks] usual steps, less a step's mean and a rank's median; without steps and ranks that tell nothing."""
    rows = logs[(~np.isnan(logs)).sum(axis=1) >= 2]
    rows = rows[:, ~np.isnan(rows).all(axis=0)]
    if not len(rows):
        return np.asarray(rows)
    left = rows - np.nanmedian(rows, axis=0)
    count = (~np.isnan(left)).sum(axis=1, keepdims=True)
    return np.asarray((left - np.nanmean(left, axis=1, keepdims=True)) * np.sqrt(count / (count - 1.0)))


def _sigma(left: Floats) -> float:
    """Standard deviation of residuals, estimated from their median absolute deviation; NaN is left out."""
    values = left[~np.isnan(left)]
    return MAD_SIGMA * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0


def _rho(left: Floats) -> float:
    """AR(1) coefficient of residuals: rank correlation, robust against outliers, converted as for normal logarithms."""
    pairs = pd.DataFrame({"now": left[1:].ravel(), "before": left[:-1].ravel()}).dropna()
    if len(pairs) < FEWEST_PAIRS:
        return 0.0
    rho = 2 * sin(pi / 6 * float(pairs["now"].corr(pairs["before"], method="spearman")))
    return float(np.clip(np.nan_to_num(rho), 0.0, 0.99))
