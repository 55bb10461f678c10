"""A cost model and a disturbance plan from the steps of a log, so that its job can be repeated on a virtual clock.

Usual steps become a base time per rank and jitter. Slow ones become windows in time: a slow machine is slow for whoever
computes on it then, and a job that waits less passes more iterations in the same window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.logs.step_log import StepLog
from analysis.measures.slow_steps import Floats, SlowSteps
from analysis.measures.straggling import barrier_s, block_of

SAME_BASE = 0.02
"""Ranks whose bases differ by less, relative to the median, count as equal devices."""
ALIKE = 0.15
"""Slow steps that follow each other are one window while their factors differ by less (and by less than jitter)."""
COLUMNS = ("start_s", "end_s", "rank", "excess_frac", "of_machine")


@dataclass(frozen=True)
class StepModel:
    """What a virtual job needs to be like the logged one.

    Attributes:
        base_s: seconds of a usual step, by rank.
        sigma, rho: jitter of usual steps (logarithms, AR(1)).
        message_s: what every iteration takes beyond the rank's own work, whether or not others wait for it.
        barrier_s: what a round takes beyond that, once its slowest rank is done.
        windows: ``start_s``, ``end_s``, ``rank`` (number), ``excess_frac`` (added part of a usual step), ``of_machine``
            (a restart elsewhere would leave it behind).
        length_s: of the log.
        steps: in it.
        block_s: length of a block when windows are resampled.
    """

    base_s: tuple[float, ...]
    sigma: float
    rho: float
    message_s: float
    barrier_s: float
    windows: pd.DataFrame
    length_s: float
    steps: int
    block_s: float

    @property
    def usual_s(self) -> float:
        """The median rank's base."""
        return float(np.median(self.base_s))


def fit_steps(
    log: StepLog, found: SlowSteps, *, barrier: bool, others: Sequence[StepLog] = (), round_s: float | None = None
) -> StepModel:
    """Fit the log of a job.

    Args:
        log: with ranks.
        found: its slow steps.
        barrier: whether all ranks wait for each other.
        others: logs of the same job without barriers (with them, if this one has none): what rounds cost and what
            messages cost can only be separated by both.
        round_s: seconds of a round beyond its slowest rank; None: as the log says.
    """
    waiting = [one for one in (log, *others) if _waits(one, log, barrier)]
    free = [one for one in (log, *others) if not _waits(one, log, barrier)]
    per_round = _median([float(barrier_s(one)[0]) for one in waiting]) if round_s is None else round_s
    message = _median([_per_iteration(one) for one in free])
    if message is None:
        message = _quickest_comm_s(log)
    per_round = per_round if per_round is not None else message or 0.0
    message = min(message if message is not None else 0.0, per_round) if waiting else message or 0.0
    edges = _edges(log, per_round, barrier=barrier)
    windows = pd.DataFrame(list(_windows(found, edges)), columns=list(COLUMNS))
    length_s = float(np.nanmax(edges))
    base_s = np.where(np.abs(found.base_s / found.usual_s - 1.0) < SAME_BASE, found.usual_s, found.base_s)
    return StepModel(
        base_s=tuple(float(each) for each in base_s),
        sigma=found.sigma,
        rho=found.rho,
        message_s=message,
        barrier_s=per_round - message if waiting else 0.0,
        windows=windows,
        length_s=length_s,
        steps=len(log.steps),
        block_s=block_of(found.slow) * length_s / len(log.steps),
    )


def resampled(model: StepModel, horizon_s: float, seed: int) -> pd.DataFrame:
    """Windows of another history like the logged one, as long as ``horizon_s``: moving blocks of time (Künsch 1989).

    A block takes what all ranks did at the same time, so ranks that are slow together remain so. Blocks have one length
    and begin anywhere in the log.
    """
    rng = np.random.default_rng([seed, 0xB10C])
    block_s = min(model.block_s, model.length_s)
    starts = rng.uniform(0.0, model.length_s - block_s, size=ceil(horizon_s / block_s))
    return _joined(model.windows, [(start, start + block_s) for start in starts.tolist()], horizon_s)


def repeated(model: StepModel, horizon_s: float) -> pd.DataFrame:
    """The logged windows, over and over up to ``horizon_s``."""
    return _joined(model.windows, [(0.0, model.length_s)] * ceil(horizon_s / model.length_s), horizon_s)


def _joined(windows: pd.DataFrame, pieces: Sequence[tuple[float, float]], horizon_s: float) -> pd.DataFrame:
    """The windows of these pieces of time, one piece after another, cut at the horizon."""
    starts, ends = windows["start_s"].to_numpy(), windows["end_s"].to_numpy()
    frames, now_s = [], 0.0
    for low, high in pieces:
        inside = windows[(starts < high) & (ends > low)]
        begin_s = inside["start_s"].clip(lower=low) - low + now_s
        end_s = (inside["end_s"].clip(upper=high) - low + now_s).clip(upper=horizon_s)
        frames.append(inside.assign(start_s=begin_s, end_s=end_s))
        now_s += high - low
    joined = pd.concat(frames, ignore_index=True)
    return joined[joined["end_s"] > joined["start_s"]].reset_index(drop=True)


def _waits(one: StepLog, log: StepLog, barrier: bool) -> bool:
    """Of the log itself as given; the others are what it is not."""
    return barrier if one is log else not barrier


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _per_iteration(log: StepLog) -> float | None:
    """Seconds from the end of a rank's work in one step to its work in the next: the least that a message takes."""
    if log.begin_s is None or len(log.own_s) < 2:
        return _quickest_comm_s(log)
    gaps = log.begin_s[1:] - (log.begin_s[:-1] + log.own_s[:-1])
    return max(0.0, float(np.nanmedian(gaps)))


def _quickest_comm_s(log: StepLog) -> float | None:
    """Communication of the rank that waited least in its step, typically; None: not logged."""
    if log.comm_s is None:
        return None
    return max(0.0, float(np.nanmedian(np.nanmin(log.comm_s, axis=1))))


def _edges(log: StepLog, per_round: float, *, barrier: bool) -> Floats:
    """[steps + 1, ranks] when each step begins, from 0 on, and the last ends."""
    own_s = log.own_s
    if log.begin_s is not None and not np.isnan(log.begin_s).any():
        last = log.begin_s[-1] + own_s[-1]
        return np.concatenate([log.begin_s, np.where(np.isnan(last), np.nanmax(last), last)[None]])
    if barrier:
        lengths = np.broadcast_to((np.nanmax(own_s, axis=1) + per_round)[:, None], own_s.shape)
    else:
        lengths = np.where(np.isnan(own_s), np.nanmedian(own_s), own_s)
    return np.concatenate([np.zeros((1, own_s.shape[1])), np.cumsum(lengths, axis=0)])


def _windows(found: SlowSteps, edges: Floats) -> Iterator[tuple[float, float, int, float, bool]]:
    """Slow steps that follow each other and are alike as one window each."""
    apart = max(ALIKE, 3.0 * found.sigma)
    for rank in range(found.slow.shape[1]):
        steps = np.flatnonzero(found.slow[:, rank])
        excess: NDArray[np.float64] = found.excess[steps, rank]
        cuts = [0, *_breaks(steps, excess, apart), len(steps)]
        for first, end in pairwise(cuts):
            if first < end:
                start_s, end_s = edges[steps[first], rank], edges[steps[end - 1] + 1, rank]
                yield float(start_s), float(end_s), rank, float(excess[first:end].mean()), bool(found.persistent[rank])


def _breaks(steps: NDArray[np.int64], excess: Floats, apart: float) -> Iterator[int]:
    """Positions at which another window begins: after a gap, or where the factor differs from the window's mean."""
    total, count = 0.0, 0
    for place in range(len(steps)):
        mean = total / count if count else excess[place]
        if count and (steps[place] != steps[place - 1] + 1 or abs(excess[place] - mean) > apart * (1.0 + mean)):
            yield place
            total, count = 0.0, 0
        total, count = total + float(excess[place]), count + 1
