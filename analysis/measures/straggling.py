"""What stragglers cost a job: its steps as they were, and as they would have been without them.

The manner is that of published what-if analysis ("Understanding Stragglers in Large Model Training Using What-if
Analysis", OSDI 2025): the slowdown is the ratio of the actual to the straggler-free time, and a rank's part in it is
what the job would gain if that rank alone were like the others. The ideal here is a job of median workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, nan

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.logs.step_log import StepLog
from analysis.measures.slow_steps import Bools, Floats, SlowSteps, slow_steps

RESAMPLES = 400
CONFIDENCE = 0.95
LATE_FRAC = 0.5
"""A rank is slow to compute if more than this part of its additional time is its own work, else slow to communicate."""


@dataclass(frozen=True)
class Straggling:
    """The cost of stragglers in a log.

    Attributes:
        slowdown: actual time over that of median workers; ``low``, ``high``: its 95 % interval, by blocks of steps.
        without_slow: the same if no step were slow: what ordinary variation costs, since all wait for the slowest.
        actual_s: seconds of all steps considered.
        ranks: a row per rank: ``rank``, ``host``, ``straggler``, ``kind`` (``persistent``, ``transient`` or empty),
            ``slow_frac`` (of its steps), ``factor`` (median of its slow steps, of a usual step), ``share`` (of the time
            lost, by who was last), ``alone_saves_frac`` (of the job's time, if only this rank were like the median),
            ``part`` (``computing``, ``communication`` or empty where the log does not say).
        found: the steps behind it.
    """

    slowdown: float
    low: float
    high: float
    without_slow: float
    actual_s: float
    ranks: pd.DataFrame
    found: SlowSteps


def straggling(log: StepLog, *, barrier: bool, slow_frac: float) -> Straggling:
    """Find the stragglers of a log with ranks, and what they cost.

    Args:
        log: with ``per_rank``.
        barrier: whether all ranks wait for each other in every step.
        slow_frac: see :func:`analysis.measures.slow_steps.slow_steps`.
    """
    found = slow_steps(log.own_s, slow_frac)
    own_s, calm = log.own_s, np.where(found.slow, np.nan, log.own_s)
    middle = np.nanmedian(own_s, axis=1)
    calm = np.where(np.isnan(calm), middle[:, None], calm)
    over_s = barrier_s(log) if barrier else np.zeros(len(own_s))
    length: Callable[[Floats], Floats] = _all_wait if barrier else _nobody_waits
    actual, ideal = length(own_s) + over_s, middle + over_s
    low, high = _interval(actual, ideal, block_of(found.slow))
    lost = np.maximum(actual - ideal, 0.0)
    return Straggling(
        slowdown=float(actual.sum() / ideal.sum()),
        low=low,
        high=high,
        without_slow=float((length(calm) + over_s).sum() / ideal.sum()),
        actual_s=float(actual.sum()),
        ranks=_ranks(log, found, middle, lost, actual, over_s, length),
        found=found,
    )


def barrier_s(log: StepLog) -> Floats:
    """[steps] what a round takes beyond its slowest rank's work; 0 where the log does not say. It has no outliers.

    The median over steps: a step in which something else took long is no cost of barriers.
    """
    if log.round_s is None:
        return np.zeros(len(log.own_s))
    over = log.round_s - _all_wait(log.own_s)
    return np.full(len(log.own_s), max(0.0, float(np.nanmedian(over))))


def block_of(slow: Bools) -> int:
    """Steps of a block: n^(1/3), as usual for moving blocks, and at least twice as long as slow phases usually are.

    A quarter of all steps is the most, so that blocks differ.
    """
    steps: int = slow.shape[0]
    lengths = episode_lengths(slow)
    transient = lengths[lengths < steps / 4]
    wanted = max(float(steps) ** (1 / 3), 2.0 * float(np.median(transient)) if len(transient) else 0.0)
    return int(max(1, min(ceil(wanted), steps // 4)))


def episode_lengths(slow: Bools) -> NDArray[np.int64]:
    """Lengths of the runs of slow steps, of all ranks."""
    padded = np.pad(slow.astype(np.int8), ((1, 1), (0, 0)))
    edges = np.diff(padded, axis=0)
    starts, ends = (np.nonzero(np.equal(edges.T, sign))[1] for sign in (1, -1))
    return np.asarray(ends - starts, np.int64)


def _all_wait(own_s: Floats) -> Floats:
    return np.asarray(np.nanmax(own_s, axis=1))


def _nobody_waits(own_s: Floats) -> Floats:
    """Of n ranks at their own pace, as many steps are done in the harmonic mean of their times."""
    return np.asarray(1.0 / np.nanmean(1.0 / own_s, axis=1))


def _ranks(
    log: StepLog,
    found: SlowSteps,
    middle: Floats,
    lost: Floats,
    actual: Floats,
    over_s: Floats,
    length: Callable[[Floats], Floats],
) -> pd.DataFrame:
    last = np.nanargmax(log.own_s, axis=1)
    shares = np.bincount(last, weights=lost, minlength=log.num_ranks) / max(float(lost.sum()), 1e-12)
    stragglers = found.stragglers
    rows = []
    for rank, name in enumerate(log.ranks):
        mended = log.own_s.copy()
        mended[:, rank] = np.fmin(mended[:, rank], middle)
        saved = float(1.0 - (length(mended) + over_s).sum() / actual.sum())
        factors = (1.0 + found.excess[found.slow[:, rank], rank]) * found.base_s[rank] / found.usual_s
        kind = "persistent" if found.persistent[rank] else "transient" if stragglers[rank] else ""
        rows.append(
            {
                "rank": name,
                "host": log.hosts[rank] if log.hosts else "",
                "straggler": bool(stragglers[rank]),
                "kind": kind,
                "slow_frac": float(found.slow_frac[rank]),
                "factor": float(np.median(factors)) if len(factors) else nan,
                "share": float(shares[rank]),
                "alone_saves_frac": max(0.0, saved),
                "part": _part(log, found, rank) if stragglers[rank] else "",
            }
        )
    return pd.DataFrame(rows)


def _part(log: StepLog, found: SlowSteps, rank: int) -> str:
    """Whether a rank's slow steps were longer in computing or in communication.

    In a collective the *others* wait for a slow rank, so only communication beyond the median rank's counts.
    """
    if log.comm_s is None or not found.slow[:, rank].any():
        return ""
    slow = found.slow[:, rank]
    own = log.own_s[slow, rank] - np.nanmedian(log.own_s[slow], axis=1)
    comm = log.comm_s[slow, rank] - np.nanmedian(log.comm_s[slow], axis=1)
    more_own, more_comm = max(0.0, float(np.nansum(own))), max(0.0, float(np.nansum(comm)))
    total = more_own + more_comm
    return "" if total == 0 else "computing" if more_own / total > LATE_FRAC else "communication"


def _interval(actual: Floats, ideal: Floats, block: int) -> tuple[float, float]:
    """Percentiles of the ratio over moving blocks of steps (Künsch 1989), with a fixed seed."""
    steps = len(actual)
    if steps < 4:
        return nan, nan
    draws = np.random.default_rng(0).integers(0, steps - block + 1, size=(RESAMPLES, ceil(steps / block)))
    sums = [np.concatenate([[0.0], np.cumsum(values)]) for values in (actual, ideal)]
    tops, bottoms = ((each[draws + block] - each[draws]).sum(axis=1) for each in sums)
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(tops / bottoms, [tail, 1.0 - tail])
    return float(low), float(high)
