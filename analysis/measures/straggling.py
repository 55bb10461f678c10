"""What stragglers cost a job: its steps as they were, and as they would have been without them.

The manner is that of published what-if analysis ("Understanding Stragglers in Large Model Training Using What-if
Analysis", OSDI 2025): the slowdown is the ratio of the actual to the straggler-free time, and the part of a rank, or of
a host, in it is what the job would gain if that alone were like the others. The ideal here is a job of median workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, nan
from math import log as ln

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.logs.step_log import StepLog
from analysis.measures.block_intervals import in_blocks, ratio_interval
from analysis.measures.lateness import Lateness, lateness, nobody_waits
from analysis.measures.phases import period_of, phases, runs
from analysis.measures.slow_steps import (
    FEWEST_FRAC,
    FEWEST_STEPS,
    PERSISTENT_FRAC,
    SIGMAS,
    Bools,
    Floats,
    SlowSteps,
    quick,
    slow_steps,
)
from analysis.measures.slow_units import Course, Group, course, groups, hosts_of

COSTLY_FRAC = 0.005
"""What is slow in few steps is named if it costs so much of the job's time."""
LONE_FRAC, LONE_TIMES = 0.01, 5.0
"""A single event is named if it costs so much, and is so many times as long as any of others at other times."""
LONG_FRAC = 0.1
"""What is slow once but for so much of the log is its machine's fault, as what is slow to the end."""
ODD_SIGMAS = 5.5
"""A rank sticks out if it is slow so much more often than the calmer ranks, in standard deviations of a count."""
PHASE_ROUNDS = 2
"""Phases change what is usual for a rank, and that its phases."""
SHORT = 3
"""Slow steps of which fewer follow each other have no level of their own: they would have been usual ones."""


@dataclass(frozen=True)
class SlowUnit:
    """Ranks that were slow together.

    Attributes:
        group: which.
        course: when.
        factor: median of their slow steps, of a usual step.
        slow_frac: part of the steps in which they were slow.
        part: ``computing``, ``loading``, ``communication``, or empty where the log does not say.
        saved_s: [steps] how much shorter each step would have been without their excess.
        saves_frac: the sum of it, of the job's time.
    """

    group: Group
    course: Course
    factor: float
    slow_frac: float
    part: str
    saved_s: Floats
    saves_frac: float


@dataclass(frozen=True)
class Pauses:
    """Steps in which all ranks were slow together: ``count``, ``seconds`` in all; ``period``: None: irregular."""

    count: int
    seconds: float
    period: int | None


@dataclass(frozen=True)
class Straggling:
    """The cost of stragglers in a log.

    Attributes:
        slowdown: actual time over that of median workers; ``low``, ``high``: its 95 % interval, by blocks of steps.
        without_slow: the same if no step were slow: what ordinary variation costs, since all wait for the slowest.
        actual_s: seconds of all steps: their sum, whatever columns the log has.
        ranks: a row per rank: ``rank``, ``host``, ``straggler``, ``kind`` (``persistent``, ``periodic``, ``once``,
            ``transient`` or empty), ``slow_frac`` (of its steps), ``factor`` (median of its slow steps, of a usual
            step), ``share`` (of the time lost, by who was last), ``alone_saves_frac`` (of the job's time, if only this
            rank were like the median), ``part`` (of its unit).
        found: the steps behind it.
        late: the log, divided.
        units: what is slow, the costliest first.
        saved_s: [steps] by positions of ranks, how much shorter each step would have been had these not been slow.
        pauses: of all ranks.
        hosts: of every rank, or empty.
    """

    slowdown: float
    low: float
    high: float
    without_slow: float
    actual_s: float
    ranks: pd.DataFrame
    found: SlowSteps
    late: Lateness
    units: tuple[SlowUnit, ...]
    saved_s: Callable[[Sequence[int]], Floats]
    pauses: Pauses
    hosts: tuple[str, ...]


def straggling(log: StepLog, *, barrier: bool, slow_frac: float, ranks_per_host: int | None = None) -> Straggling:
    """Find the stragglers of a log with ranks, and what they cost.

    Args:
        log: with ``per_rank``.
        barrier: whether all ranks wait for each other in every step.
        slow_frac: see :func:`analysis.measures.slow_steps.slow_steps`.
        ranks_per_host: of a log that does not tell; None: unknown.
    """
    late = lateness(log, barrier=barrier, slow_frac=slow_frac)
    own_s, actual = late.own_s, late.length_s
    found = _with_phases(slow_steps(own_s, slow_frac), own_s, ln(1.0 + slow_frac))
    job = _Job(log, late, barrier, slow_frac, found, _calm(found, own_s))
    middle = np.nanmedian(own_s, axis=1)
    ideal = actual - (np.nanmax(own_s, axis=1) - middle) if barrier else middle
    low, high = ratio_interval(*(in_blocks(each, block_of(found.slow)) for each in (actual, ideal)))
    hosts = hosts_of(log.ranks, log.hosts, ranks_per_host)
    units = _units(job, hosts)
    since = found.since.copy()
    for unit in units:
        lasts = unit.course.kind == "persistent" or (unit.course.kind == "once" and unit.slow_frac >= LONG_FRAC)
        since[list(unit.group.members)] = unit.course.since if lasts else -1
    lost = np.maximum(actual - ideal, 0.0)
    return Straggling(
        slowdown=float(actual.sum() / ideal.sum()),
        low=low,
        high=high,
        without_slow=float((actual - job.saved_s(range(log.num_ranks))).sum() / ideal.sum()),
        actual_s=float(actual.sum()),
        ranks=_ranks(job, units, hosts, lost),
        found=replace(found, since=since),
        late=late,
        units=units,
        saved_s=job.saved_s,
        pauses=_pauses(log, late),
        hosts=hosts,
    )


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


@dataclass(frozen=True)
class _Job:
    """A log, what of it was slow, and the seconds of every rank had it not been slow."""

    log: StepLog
    late: Lateness
    barrier: bool
    slow_frac: float
    found: SlowSteps
    calm_s: Floats

    def saved_s(self, members: Sequence[int]) -> Floats:
        """[steps] how much shorter each step would have been had these ranks not been slow."""
        chosen = list(members)
        mended = self.late.own_s.copy()
        mended[:, chosen] = self.calm_s[:, chosen]
        if not self.barrier:
            return nobody_waits(self.late.own_s) - nobody_waits(mended)
        return np.asarray(np.nanmax(self.late.own_s, axis=1) - np.nanmax(mended, axis=1))

    def alone_saves_frac(self) -> Floats:
        """[ranks] of the job's time, if one rank were like the median of each step.

        Of a job with barriers the two slowest ranks of each step decide.
        """
        own_s, middle = self.late.own_s, np.nanmedian(self.late.own_s, axis=1)
        total = float(self.late.length_s.sum())
        if not self.barrier:
            ratio = 1.0 / own_s
            quicker = np.fmax(ratio, (1.0 / middle)[:, None])
            known = (~np.isnan(own_s)).sum(axis=1, keepdims=True)
            speeds = (np.nansum(ratio, axis=1, keepdims=True) - np.nan_to_num(ratio - quicker)) / known
            return np.asarray(np.maximum(0.0, (nobody_waits(own_s)[:, None] - 1.0 / speeds).sum(axis=0) / total))
        own_s, steps = np.nan_to_num(own_s, nan=-1.0), np.arange(len(own_s))
        first = own_s.argmax(axis=1)
        others = own_s.copy()
        others[steps, first] = -1.0
        left = np.maximum(others.max(axis=1), middle)
        saved = np.bincount(first, weights=own_s[steps, first] - left, minlength=self.log.num_ranks)
        return np.asarray(np.maximum(0.0, saved / total))


def _part_of(saved_s: Floats, late: Lateness) -> float:
    return max(0.0, float(saved_s.sum() / late.length_s.sum()))


def _with_phases(found: SlowSteps, own_s: Floats, least: float) -> SlowSteps:
    """The same with all steps of slow phases, those between slow ones included, and bases without these."""
    usual_frac = float(np.quantile(found.slow_frac, 0.25))
    slow, base_s, relative = found.slow, found.base_s, own_s / found.shared[:, None]
    for _ in range(PHASE_ROUNDS):
        over = np.log(relative / base_s)
        slow = found.slow | (phases(over, found.sigma, found.rho, least, usual_frac) & ~np.isnan(own_s))
        enough = ((~slow).mean(axis=0) > 1.0 - PERSISTENT_FRAC) & (~slow & ~np.isnan(own_s)).any(axis=0)
        base_s = base_s.copy()
        base_s[enough] = np.nanmean(np.where(slow, np.nan, relative)[:, enough], axis=0)
    excess = np.where(slow, np.nan_to_num(relative / base_s - 1.0), 0.0)
    return replace(found, slow=slow, excess=excess, base_s=base_s)


def _calm(found: SlowSteps, own_s: Floats) -> Floats:
    """[steps, ranks] seconds without what made steps slow: those of a phase less its level, with their jitter.

    A single slow step would have been a usual one, and never quicker than the quicker ranks.
    """
    usual = found.base_s * found.shared[:, None]
    calm = np.where(found.slow, np.fmax(usual, quick(own_s)[:, None]), own_s)
    most = np.exp(SIGMAS * found.sigma) * usual
    for rank in np.flatnonzero(found.slow.any(axis=0)):
        for start, end in runs(found.slow[:, rank]):
            if end - start >= SHORT:
                level = 1.0 + float(np.median(found.excess[start:end, rank]))
                calm[start:end, rank] = np.fmin(own_s[start:end, rank] / level, most[start:end, rank])
    return np.fmin(calm, own_s)


def _units(job: _Job, hosts: tuple[str, ...]) -> tuple[SlowUnit, ...]:
    """What is slow more than now and then, or costs much; the costliest first."""
    slow = job.found.slow
    units = [_unit(job, group) for group in groups(slow, _candidates(job), job.log.ranks, hosts)]
    named = [unit for unit in units if unit.factor >= 1.0 + job.slow_frac / 2 and _counts(unit, len(slow))]
    return tuple(sorted(named, key=lambda unit: -unit.saves_frac))


def _candidates(job: _Job) -> list[int]:
    """Ranks that are slow in phases, more often than the calmer ones, or once and for very long."""
    slow, excess = job.found.slow, job.found.excess
    counts = slow.sum(axis=0)
    calmer = float(np.quantile(counts, 0.25, method="lower"))
    often = counts >= max(FEWEST_STEPS, calmer + ODD_SIGMAS * calmer**0.5)
    by_chance = ln(slow.size * 100) / -ln(min(0.9, max(calmer, 1.0) / len(slow)))  # so many in a row, in one log of 100
    chosen = [
        rank
        for rank in np.flatnonzero(counts).tolist()
        if often[rank] or any(end - start > max(SHORT, by_chance) for start, end in runs(slow[:, rank]))
    ]
    worst = np.where(np.isin(np.arange(slow.shape[1]), chosen), 0.0, excess.max(axis=0))
    step = excess.argmax(axis=0)
    for rank in np.flatnonzero(worst * LONE_TIMES > 0).tolist():
        elsewhere = np.where(step == step[rank], 0.0, worst).max()
        if worst[rank] >= LONE_TIMES * max(elsewhere, ln(1.0 + FEWEST_FRAC)):
            chosen.append(rank)
    return sorted(chosen)


def _counts(unit: SlowUnit, steps: int) -> bool:
    """Whether it is worth a name."""
    if unit.course.kind == "once" and unit.slow_frac * steps < FEWEST_STEPS:
        return unit.saves_frac >= LONE_FRAC
    return unit.slow_frac * steps >= FEWEST_STEPS and (unit.slow_frac >= FEWEST_FRAC or unit.saves_frac >= COSTLY_FRAC)


def _unit(job: _Job, group: Group) -> SlowUnit:
    members = list(group.members)
    slow, found = job.found.slow[:, members], job.found
    together = np.asarray(slow.mean(axis=1) >= 0.5)
    factors = ((1.0 + found.excess[:, members]) * found.base_s[members] / found.usual_s)[slow]
    saved_s = job.saved_s(members)
    return SlowUnit(
        group=group,
        course=course(together if together.any() else np.asarray(slow.any(axis=1))),
        factor=float(np.median(factors)),
        slow_frac=float(together.mean()),
        part=_part(job, members),
        saved_s=saved_s,
        saves_frac=_part_of(saved_s, job.late),
    )


def _part(job: _Job, members: list[int]) -> str:
    """What of their slow steps was longer than the median rank's: computing, loading or communication."""
    log, slow = job.log, job.found.slow[:, members]
    parts = {"communication": job.late.comm_s}
    if log.data_s is not None:
        parts["loading"] = log.data_s
    parts["computing"] = job.late.own_s - sum(parts.values())
    if log.comm_s is None and log.data_s is None:
        return ""
    more = {name: values - np.nanmedian(values, axis=1, keepdims=True) for name, values in parts.items()}
    sums = {name: float(np.nansum(values[:, members][slow])) for name, values in more.items()}
    return max(sums, key=sums.__getitem__)


def _pauses(log: StepLog, late: Lateness) -> Pauses:
    places = [start for start, _ in runs(late.pause_s > 0)]
    return Pauses(len(places), float(late.pause_s.sum()), period_of([log.steps[place] for place in places]))


def _ranks(job: _Job, units: tuple[SlowUnit, ...], hosts: tuple[str, ...], lost: Floats) -> pd.DataFrame:
    log, found = job.log, job.found
    last = np.nanargmax(job.late.own_s, axis=1)
    shares = np.bincount(last, weights=lost, minlength=log.num_ranks) / max(float(lost.sum()), 1e-12)
    of_rank = {rank: unit for unit in units for rank in unit.group.members}
    saves = job.alone_saves_frac()
    rows = []
    for rank, name in enumerate(log.ranks):
        unit = of_rank.get(rank)
        factors = (1.0 + found.excess[found.slow[:, rank], rank]) * found.base_s[rank] / found.usual_s
        rows.append(
            {
                "rank": name,
                "host": hosts[rank] if hosts else "",
                "straggler": unit is not None,
                "kind": unit.course.kind if unit else "",
                "slow_frac": float(found.slow[:, rank].mean()),
                "factor": float(np.median(factors)) if len(factors) else nan,
                "share": float(shares[rank]),
                "alone_saves_frac": float(saves[rank]),
                "part": unit.part if unit else "",
            }
        )
    return pd.DataFrame(rows)
