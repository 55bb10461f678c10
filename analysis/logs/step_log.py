"""The one form that all logs are read into: seconds by rank and step, and the log's other data about its job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.records.log import RecordError

Floats = NDArray[np.float64]


OF_SLOWEST = " of the slowest rank"
"""Ends the name of a part of steps that is the longest of all ranks."""
PER_ROW = "steps_per_row"
"""The fact about a job that a row of its log stands for so many steps, and has the time of all of them."""
RELATIVE = "relative"
"""The fact about a job that its times are in units of the usual step."""

RESTARTED = "restart_s"
"""The fact about a job that a restart within its log cost so many seconds."""


class LogError(RecordError):
    """A log that cannot be used: one line with the file, what is wrong, and the cure."""


class Untimed(LogError):
    """A log that is understood, and cannot tell how long its steps took: what it does tell, and what to log."""


class Extremes(NamedTuple):
    """The quickest and the slowest rank of a step, in seconds, and their names if the log has them.

    ``what``: the part of the step that was timed.
    """

    what: str
    quickest_s: float
    slowest_s: float
    quickest: str = ""
    slowest: str = ""

    @property
    def apart_s(self) -> float:
        """Return how much later the slowest rank is."""
        return self.slowest_s - self.quickest_s

    def times(self, count: float) -> Extremes:
        """Return the same of so many steps."""
        return self._replace(quickest_s=count * self.quickest_s, slowest_s=count * self.slowest_s)


@dataclass(frozen=True, eq=False)
class StepLog:
    """The steps that a job logged.

    Attributes:
        source: form of the log, for people.
        ranks: names of the ranks, in natural order; row order of nothing, column order of the matrices.
        steps: number of every step, ascending.
        own_s: [steps, ranks] seconds of a rank's own work, without waiting and transfers; NaN where nothing was logged.
            A log of whole steps (``per_rank`` is False) has one column.
        comm_s: [steps, ranks] seconds of transfers, waiting included where a collective waits; None: not logged.
        data_s: [steps, ranks] seconds of loading, a part of ``own_s``; None: not logged.
        begin_s: [steps, ranks] when the work of that step began, from the log's first; None: not logged.
        round_s: [steps] seconds from one step's end to the next's, of all ranks; None: not logged.
        own_is_rest: whether own work is a step without its transfers, so that it may contain the wait for others.
        per_rank: whether the log distinguishes its ranks.
        hosts: host of every rank, or empty.
        part_fracs: [steps, ranks] of each part of a step that the log names, the part of the step's seconds that it
            took; NaN where nothing was logged.
        extremes: of steps of which the log has the quickest and the slowest rank only, by step.
        job: facts about the job besides its times: ``strategy``, ``topology``, ``num_servers``, ``num_samples``,
            ``epochs``, ``global_batch_samples``, ``base_frac`` (part of an iteration that no smaller batch saves),
            ``own_clock`` (its settings in seconds are meant for it), ``jct_s``, ``PER_ROW``, ``RELATIVE``,
            ``RESTARTED``.
        remarks: what a reader of the results must know about this log.
    """

    source: str
    ranks: tuple[str, ...]
    steps: tuple[int, ...]
    own_s: Floats
    comm_s: Floats | None = None
    data_s: Floats | None = None
    begin_s: Floats | None = None
    round_s: Floats | None = None
    own_is_rest: bool = False
    per_rank: bool = True
    hosts: tuple[str, ...] = ()
    part_fracs: dict[str, Floats] = field(default_factory=dict)
    extremes: dict[int, tuple[Extremes, ...]] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def num_ranks(self) -> int:
        """Number of ranks; 1 if the log does not distinguish them."""
        return len(self.ranks)


def without_first(log: StepLog, count: int) -> StepLog:
    """The log without its first steps, in which things are set up; times begin with what is left."""
    return _of(log, np.arange(len(log.steps)) >= count)


def drop_untimed_steps(log: StepLog) -> StepLog:
    """The log without steps of which no rank has a time; times begin with what is left."""
    return _of(log, np.asarray(~np.isnan(log.own_s).all(axis=1)))


def _of(log: StepLog, chosen: NDArray[np.bool_]) -> StepLog:
    """Some of its steps: [steps] whether each is one of them."""

    def rest(values: Floats | None) -> Floats | None:
        return None if values is None else values[chosen]

    begin_s, steps = rest(log.begin_s), tuple(compress(log.steps, chosen))
    return replace(
        log,
        steps=steps,
        own_s=log.own_s[chosen],
        comm_s=rest(log.comm_s),
        data_s=rest(log.data_s),
        begin_s=None if begin_s is None else begin_s - np.nanmin(begin_s),
        round_s=rest(log.round_s),
        part_fracs={name: fracs[chosen] for name, fracs in log.part_fracs.items()},
        extremes={step: log.extremes[step] for step in steps if step in log.extremes},
    )


def rounds_s(log: StepLog) -> Floats:
    """[steps] seconds of whole steps; if the log lacks them, the slowest rank's seconds and the usual rest."""
    slowest = np.asarray(np.nanmax(log.own_s, axis=1))
    if log.round_s is None:
        return slowest
    over = float(np.nanmedian(log.round_s - slowest))
    return np.where(np.isnan(log.round_s), slowest + over, log.round_s)
