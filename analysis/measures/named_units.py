"""The ranks and hosts of a log that are worth naming: slow more than now and then, or costly."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import log as ln

import numpy as np
from scipy.special import pdtrc

from analysis.measures.calm_steps import SHORT, CalmJob, part_of
from analysis.measures.phases import runs
from analysis.measures.slow_steps import FEWEST_FRAC, FEWEST_STEPS, Bools, Floats
from analysis.measures.slow_units import Course, Group, course, groups

COSTLY_FRAC = 0.005
"""A unit that is slow in few steps is named if it costs so much of the job's time."""
LONE_FRAC, LONE_TIMES = 0.01, 5.0
"""A single event is named if it costs so much, and is so many times as long as any of others at other times."""
ODD_SIGMAS = 5.5
"""A rank sticks out if it is slow so much more often than the calmer ranks, in standard deviations of a count."""
MOST_OVER_MEDIAN = 0.7
"""A Poisson mean exceeds the median by so much at most."""
CHANCE = 0.001
"""Probability that any rank of a log has as many events by chance, at most."""


@dataclass(frozen=True)
class SlowUnit:
    """Ranks that were slow together.

    Attributes:
        group: which.
        course: when.
        factor: median of their slow steps, of a usual step.
        slow_frac: part of the steps in which they were slow.
        part: ``computing``, ``loading``, ``communication``, or empty where the log does not say.
        when: [steps] of its course, in which most of its ranks were slow; other slow steps of its ranks are chance.
        saved_s: [steps] how much shorter each step would have been without their excess in these.
        saves_frac: the sum of it, of the job's time.
    """

    group: Group
    course: Course
    factor: float
    slow_frac: float
    part: str
    when: Bools
    saved_s: Floats
    saves_frac: float


def named_units(job: CalmJob, hosts: tuple[str, ...]) -> tuple[SlowUnit, ...]:
    """Return the units that are slow more than now and then, or cost much; the costliest first."""
    slow = job.found.slow
    units = [_unit(job, group) for group in groups(slow, _candidates(job), job.log.ranks, hosts)]
    enough = [unit for unit in units if unit.factor >= 1.0 + job.slow_frac / 2 and _counts(unit, len(slow))]
    named = [unit for unit in enough if not _by_chance(job, unit, units)]
    return tuple(sorted(named, key=lambda unit: -unit.saves_frac))


def _candidates(job: CalmJob) -> list[int]:
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


def _by_chance(job: CalmJob, unit: SlowUnit, units: Sequence[SlowUnit]) -> bool:
    """Whether one rank has no more short events than would come to it if they came to all ranks at random."""
    slow = job.found.slow
    if len(unit.group.members) > 1 or unit.course.kind == "periodic" or unit.slow_frac * len(slow) < FEWEST_STEPS:
        return False
    events = runs(slow[:, unit.group.members[0]])
    apart = {place for one in units if len(one.group.members) > 1 for place in one.group.members}
    others = [rank for rank in range(slow.shape[1]) if rank not in apart and rank != unit.group.members[0]]
    if not others or max(end - start for start, end in events) > _in_a_row(slow[:, others], slow.size):
        return False
    usual = _usual_events(slow[:, others])
    return usual > 0 and float(pdtrc(len(events) - 1, usual)) * slow.shape[1] > CHANCE


def _in_a_row(slow: Bools, cells: int) -> float:
    """So many slow steps may follow each other by chance in one of as many steps of ranks."""
    usual_frac = max(float(np.median(slow.mean(axis=0))), 1.0 / len(slow))
    return max(SHORT, ln(cells / CHANCE) / -ln(min(0.9, usual_frac)))


def _usual_events(slow: Bools) -> float:
    """How many events a rank has on average, whatever a few stragglers have: Poisson, by the median or the zeros."""
    counts = slow[0].astype(np.int64) + (slow[1:] & ~slow[:-1]).sum(axis=0)
    middle = float(np.median(counts))
    return middle + MOST_OVER_MEDIAN if middle else -ln(float(np.mean(counts == 0)))


def _unit(job: CalmJob, group: Group) -> SlowUnit:
    members = list(group.members)
    slow, found = job.found.slow[:, members], job.found
    together = np.asarray(slow.mean(axis=1) >= 0.5)
    factors = ((1.0 + found.excess[:, members]) * found.base_s[members] / found.usual_s)[slow]
    steps = course(together if together.any() else np.asarray(slow.any(axis=1)))
    when = together if together.any() else np.ones(len(slow), bool)
    if steps.kind in ("persistent", "once"):
        when = (np.arange(len(slow)) >= steps.since) & (np.arange(len(slow)) < steps.until)
    saved_s = job.saved_s(_cells(members, when, job.log.num_ranks))
    return SlowUnit(
        group=group,
        course=steps,
        factor=float(np.median(factors)),
        slow_frac=float(together.mean()),
        part=_part(job, members),
        when=when,
        saved_s=saved_s,
        saves_frac=part_of(saved_s, job.late),
    )


def saved_s_without(job: CalmJob, units: Sequence[SlowUnit]) -> Floats:
    """[steps] how much shorter each step would have been without the excess of all of these."""
    return job.saved_s(cells_of(units, job.late.own_s.shape))


def cells_of(units: Sequence[SlowUnit], shape: tuple[int, ...]) -> Bools:
    """[steps, ranks] the courses of all of these."""
    cells = np.zeros(shape, bool)
    for unit in units:
        cells |= _cells(unit.group.members, unit.when, shape[1])
    return cells


def _cells(members: Sequence[int], when: Bools, ranks: int) -> Bools:
    return np.asarray(when[:, None] & np.isin(np.arange(ranks), members))


def _part(job: CalmJob, members: list[int]) -> str:
    """Return which part of their slow steps exceeds the median rank's: computing, loading or communication."""
    log, slow = job.log, job.found.slow[:, members]
    parts = {"communication": job.late.comm_s}
    if log.data_s is not None:
        parts["loading"] = log.data_s
    parts["computing"] = job.late.own_s - sum(parts.values())
    if log.comm_s is None and log.data_s is None:
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a step in which no rank's part is known
        more = {name: values - np.nanmedian(values, axis=1, keepdims=True) for name, values in parts.items()}
    sums = {name: float(np.nansum(values[:, members][slow])) for name, values in more.items()}
    return max(sums, key=sums.__getitem__)
