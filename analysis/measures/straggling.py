"""The cost of stragglers to a job: its steps as they were, and as they would have been without stragglers.

The method is published what-if analysis ("Understanding Stragglers in Large Model Training Using What-if
Analysis", OSDI 2025): the slowdown is the ratio of the actual to the straggler-free time, and the part of a rank or
host in it is the job's gain if that rank or host alone were like the others. The ideal here is a job of median workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, nan
from math import log as ln

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.logs.step_log import StepLog
from analysis.measures.block_intervals import in_blocks, ratio_interval
from analysis.measures.calm_steps import CalmJob, calm_steps, part_of, with_phases
from analysis.measures.lateness import Lateness, lateness
from analysis.measures.named_units import SlowUnit, cells_of, named_units, saved_s_without
from analysis.measures.phases import period_of, runs
from analysis.measures.slow_steps import Bools, Floats, SlowSteps, slow_steps
from analysis.measures.slow_units import hosts_of
from analysis.measures.staggered import Staggered, staggered_pauses
from analysis.measures.uneven import LEAST_UNEVEN, balanced_saved_s

LONG_FRAC = 0.1
"""A unit that is slow once, but for so much of the log, is its machine's fault, like a unit that is slow to the end."""


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
        slowdown: actual time over median workers' time (``CalmJob.middle_s``);
            ``low``, ``high``: its 95 % interval, by blocks of steps.
        without_slow: the same if no step were slow: the cost of ordinary variation, since all wait for the slowest.
        actual_s: seconds of all steps: their sum, whatever columns the log has.
        ranks: a row per rank: ``rank``, ``host``, ``straggler``, ``kind`` (``persistent``, ``periodic``, ``once``,
            ``transient``, ``pauses`` or empty), ``slow_frac`` (of its steps), ``factor`` (median of its slow steps, of
            a usual step), ``share`` (of the time lost, by who was last), ``alone_saves_frac`` (of the job's time, if
            only this rank were like the median), ``part`` (of its unit).
        found: the steps behind it.
        late: the log, divided.
        units: the slow units, the costliest first.
        saved_s: [steps] by units, how much shorter each step would have been had these not been slow.
        scattered_frac: of the job's time, the cost of slow steps that belong to no unit.
        pauses: of all ranks.
        staggered: pauses of ranks, each in its own phase; these ranks are no units because of them.
        balanced_s: [steps] how much shorter each step would have been if its work had been divided evenly.
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
    saved_s: Callable[[Sequence[SlowUnit]], Floats]
    scattered_frac: float
    pauses: Pauses
    staggered: Staggered | None
    balanced_s: Floats
    hosts: tuple[str, ...]

    @property
    def uneven(self) -> bool:
        """Whether work of unequal size costs much."""
        return self.without_slow >= 1.0 + LEAST_UNEVEN


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
    found = with_phases(slow_steps(own_s, slow_frac), own_s, ln(1.0 + slow_frac))
    job = CalmJob(log, late, barrier, slow_frac, found, calm_steps(found, own_s))
    middle = job.middle_s
    ideal = actual - (np.nanmax(own_s, axis=1) - middle) if barrier else middle
    low, high = ratio_interval(*(in_blocks(each, block_of(found.slow)) for each in (actual, ideal)))
    hosts = hosts_of(log.ranks, log.hosts, ranks_per_host)
    pausing = staggered_pauses(job)
    paused = pausing.cells if pausing else np.zeros(own_s.shape, bool)
    units = named_units(replace(job, found=replace(found, slow=found.slow & ~paused)), hosts)
    since = found.since.copy()
    for unit in units:
        lasts = unit.course.kind == "persistent" or (unit.course.kind == "once" and unit.slow_frac >= LONG_FRAC)
        since[list(unit.group.members)] = unit.course.since if lasts else -1
    lost, named = np.maximum(actual - ideal, 0.0), cells_of(units, own_s.shape)
    all_s = job.saved_s(np.ones(own_s.shape, bool))
    return Straggling(
        slowdown=float(actual.sum() / ideal.sum()),
        low=low,
        high=high,
        without_slow=float((actual - all_s).sum() / ideal.sum()),
        actual_s=float(actual.sum()),
        ranks=_ranks(job, units, pausing.members if pausing else (), hosts, lost),
        found=replace(found, since=since),
        late=late,
        units=units,
        saved_s=partial(saved_s_without, job),
        scattered_frac=part_of(all_s - job.saved_s(named | paused), late),
        pauses=_pauses(log, late),
        staggered=pausing,
        balanced_s=balanced_saved_s(job, named | paused) if barrier else np.zeros(len(own_s)),
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


def _pauses(log: StepLog, late: Lateness) -> Pauses:
    places = [start for start, _ in runs(late.pause_s > 0)]
    return Pauses(len(places), float(late.pause_s.sum()), period_of([log.steps[place] for place in places]))


def _ranks(
    job: CalmJob, units: tuple[SlowUnit, ...], pausing: tuple[int, ...], hosts: tuple[str, ...], lost: Floats
) -> pd.DataFrame:
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
                "kind": unit.course.kind if unit else "pauses" if rank in pausing else "",
                "slow_frac": float(found.slow[:, rank].mean()),
                "factor": float(np.median(factors)) if len(factors) else nan,
                "share": float(shares[rank]),
                "alone_saves_frac": float(saves[rank]),
                "part": unit.part if unit else "",
            }
        )
    return pd.DataFrame(rows)
