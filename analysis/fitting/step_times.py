"""A cost model and a disturbance plan from the steps of a log, so that its job can be repeated on a virtual clock.

Usual steps become a base time per rank and jitter. Slow ones become windows in time: a slow machine slows every job
that computes on it then, and a job that waits less passes more iterations in a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.logs.step_log import StepLog
from analysis.measures.lateness import Lateness, lateness
from analysis.measures.slow_steps import SLOW_FRAC, Floats, SlowSteps

SAME_BASE = 0.02
"""Ranks whose bases differ by less, relative to the median, count as equal devices."""
ALIKE = 0.15
"""Slow steps that follow each other are one window while their factors differ by less (and by less than jitter)."""
COLUMNS = ("start_s", "end_s", "rank", "excess_frac", "of_machine", "sent")


@dataclass(frozen=True)
class StepModel:
    """A virtual job's likeness of the logged one, but for pauses of all ranks, which no strategy shortens.

    Attributes:
        base_s: seconds of a usual step, by rank.
        sigma, rho: jitter of usual steps (logarithms, AR(1)).
        message_s: seconds of every iteration beyond the rank's own work, whether or not others wait for it.
        barrier_s: further seconds of a round, once its slowest rank is done.
        windows: ``start_s``, ``end_s``, ``rank`` (number), ``excess_frac`` (added part of a usual step), ``of_machine``
            (a restart elsewhere would leave it behind), ``sent`` (communication, which no smaller batch shortens).
        length_s: of the log.
        steps: in it.
        times_s: [steps + 1] when each step begins, and the last one ends.
        rank_steps: [steps] how many ranks did each.
    """

    base_s: tuple[float, ...]
    sigma: float
    rho: float
    message_s: float
    barrier_s: float
    windows: pd.DataFrame
    length_s: float
    steps: int
    times_s: Floats
    rank_steps: NDArray[np.int64]

    @property
    def usual_s(self) -> float:
        """The median rank's base."""
        return float(np.median(self.base_s))


def fit_steps(
    log: StepLog,
    found: SlowSteps,
    *,
    barrier: bool,
    others: Sequence[StepLog] = (),
    round_s: float | None = None,
    late: Lateness | None = None,
) -> StepModel:
    """Fit the log of a job.

    Args:
        log: with ranks.
        found: its slow steps.
        barrier: whether all ranks wait for each other.
        others: logs of the same job without barriers (with them, if this one has none): the costs of rounds and of
        messages can only be separated with both.
        round_s: seconds of a round beyond its slowest rank; None: as the log says.
        late: the log, divided; None: it is divided here.
    """
    late = late or lateness(log, barrier=barrier, slow_frac=SLOW_FRAC)
    waiting = [one for one in (log, *others) if _waits(one, log, barrier)]
    free = [one for one in (log, *others) if not _waits(one, log, barrier)]
    rounds = [late if one is log else lateness(one, barrier=True, slow_frac=SLOW_FRAC) for one in waiting]
    per_round = _median([each.barrier_s for each in rounds]) if round_s is None else round_s
    message = _median([_per_iteration(one) for one in free])
    if message is None:
        message = _quickest_comm_s(log)
    per_round = per_round if per_round is not None else message or 0.0
    message = min(message if message is not None else 0.0, per_round) if waiting else message or 0.0
    edges = _edges(log, late, barrier=barrier)
    windows = pd.DataFrame(list(_windows(found, edges, late)), columns=list(COLUMNS))
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
        times_s=np.nanmedian(edges, axis=1) * (length_s / float(np.nanmedian(edges[-1]))),
        rank_steps=np.asarray((~np.isnan(log.own_s)).sum(axis=1)),
    )


def repeated(model: StepModel, horizon_s: float) -> pd.DataFrame:
    """The logged windows, over and over up to ``horizon_s``."""
    return joined(model.windows, [(0.0, model.length_s)] * ceil(horizon_s / model.length_s), horizon_s)


def part_of(model: StepModel, pieces: Sequence[tuple[int, int]]) -> StepModel:
    """The same job with these steps only: [first, end) of each piece."""
    times = [(float(model.times_s[first]), float(model.times_s[end])) for first, end in pieces]
    length_s = sum(end - start for start, end in times)
    kept = np.concatenate([np.arange(first, end) for first, end in pieces])
    lengths = np.diff(model.times_s)[kept]
    return replace(
        model,
        windows=joined(model.windows, times, length_s),
        length_s=length_s,
        steps=len(kept),
        times_s=np.concatenate([[0.0], np.cumsum(lengths)]),
        rank_steps=model.rank_steps[kept],
    )


def joined(windows: pd.DataFrame, pieces: Sequence[tuple[float, float]], horizon_s: float) -> pd.DataFrame:
    """The windows of these pieces of time, one piece after another, cut at the horizon."""
    starts, ends = windows["start_s"].to_numpy(), windows["end_s"].to_numpy()
    frames, now_s = [], 0.0
    for low, high in pieces:
        inside = windows[(starts < high) & (ends > low)]
        begin_s = inside["start_s"].clip(lower=low) - low + now_s
        end_s = (inside["end_s"].clip(upper=high) - low + now_s).clip(upper=horizon_s)
        frames.append(inside.assign(start_s=begin_s, end_s=end_s))
        now_s += high - low
    whole = pd.concat(frames, ignore_index=True)
    return whole[whole["end_s"] > whole["start_s"]].reset_index(drop=True)


def _waits(one: StepLog, log: StepLog, barrier: bool) -> bool:
    """Say whether strategies wait for all, given for the log's own; the others are the opposite."""
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


def _edges(log: StepLog, late: Lateness, *, barrier: bool) -> Floats:
    """[steps + 1, ranks] when each step begins, from 0 on, and the last ends; without pauses."""
    own_s = late.own_s
    if log.begin_s is not None and not np.isnan(log.begin_s).any() and not late.pause_s.any():
        last = log.begin_s[-1] + own_s[-1]
        return np.concatenate([log.begin_s, np.where(np.isnan(last), np.nanmax(last), last)[None]])
    if barrier:
        lengths = np.broadcast_to((late.length_s - late.pause_s)[:, None], own_s.shape)
    else:
        lengths = np.where(np.isnan(own_s), np.nanmedian(own_s), own_s)
    return np.concatenate([np.zeros((1, own_s.shape[1])), np.cumsum(lengths, axis=0)])


def _windows(found: SlowSteps, edges: Floats, late: Lateness) -> Iterator[tuple[float, float, int, float, bool, bool]]:
    """Slow steps that follow each other and are alike as one window each."""
    apart = max(ALIKE, 3.0 * found.sigma)
    for rank in np.flatnonzero(found.slow.any(axis=0)).tolist():
        steps = np.flatnonzero(found.slow[:, rank])
        excess: NDArray[np.float64] = found.excess[steps, rank]
        cuts = [0, *_breaks(steps, excess, apart), len(steps)]
        for first, end in pairwise(cuts):
            mean, where = float(excess[first:end].mean()), steps[first:end]
            if mean > 0:
                start_s, end_s = edges[steps[first], rank], edges[steps[end - 1] + 1, rank]
                lasts = 0 <= found.since[rank] <= steps[first]
                more_s = mean * found.base_s[rank] * len(where)
                sent = float(late.comm_s[where, rank].sum()) > 0.5 * more_s
                yield float(start_s), float(end_s), rank, mean, bool(lasts), sent


def _breaks(steps: NDArray[np.int64], excess: Floats, apart: float) -> Iterator[int]:
    """Positions at which another window begins: after a gap, or where the factor differs from the window's mean."""
    total, count = 0.0, 0
    for place in range(len(steps)):
        mean = total / count if count else excess[place]
        if count and (steps[place] != steps[place - 1] + 1 or abs(excess[place] - mean) > apart * (1.0 + mean)):
            yield place
            total, count = 0.0, 0
        total, count = total + float(excess[place]), count + 1
