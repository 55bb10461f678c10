"""Which ranks and hosts of a log are slow more than now and then, or cost much: those that are worth a name."""

from __future__ import annotations

from dataclasses import dataclass
from math import log as ln

import numpy as np

from analysis.measures.calm_steps import SHORT, CalmJob, part_of
from analysis.measures.phases import runs
from analysis.measures.slow_steps import FEWEST_FRAC, FEWEST_STEPS, Floats
from analysis.measures.slow_units import Course, Group, course, groups

COSTLY_FRAC = 0.005
"""What is slow in few steps is named if it costs so much of the job's time."""
LONE_FRAC, LONE_TIMES = 0.01, 5.0
"""A single event is named if it costs so much, and is so many times as long as any of others at other times."""
ODD_SIGMAS = 5.5
"""A rank sticks out if it is slow so much more often than the calmer ranks, in standard deviations of a count."""


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


def named_units(job: CalmJob, hosts: tuple[str, ...]) -> tuple[SlowUnit, ...]:
    """What is slow more than now and then, or costs much; the costliest first."""
    slow = job.found.slow
    units = [_unit(job, group) for group in groups(slow, _candidates(job), job.log.ranks, hosts)]
    named = [unit for unit in units if unit.factor >= 1.0 + job.slow_frac / 2 and _counts(unit, len(slow))]
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


def _unit(job: CalmJob, group: Group) -> SlowUnit:
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
        saves_frac=part_of(saved_s, job.late),
    )


def _part(job: CalmJob, members: list[int]) -> str:
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
