"""The one form that all logs are read into: seconds by rank and step, and what else the log says of its job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.files import natural
from analysis.records.log import RecordError

Floats = NDArray[np.float64]

SAME_SPREAD = 0.01
"""Ranks whose times differ by less, as a part of nearly every step, have logged the step and not their own work."""
NEARLY_ALL = 0.95


class LogError(RecordError):
    """A log that cannot be used: one line with the file, what is wrong, and the cure."""


@dataclass(frozen=True, eq=False)
class StepLog:
    """What a job logged of its steps.

    Attributes:
        source: form of the log, for people.
        ranks: names of the ranks, in natural order; row order of nothing, column order of the matrices.
        steps: number of every step, ascending.
        own_s: [steps, ranks] seconds of a rank's own work, without waiting and transfers; NaN where nothing was logged.
            Those of whole steps (``per_rank`` is False) have one column.
        comm_s: [steps, ranks] seconds of transfers, waiting included where a collective waits; None: not logged.
        begin_s: [steps, ranks] when the work of that step began, from the log's first; None: not logged.
        round_s: [steps] seconds from one step's end to the next's, of all ranks; None: not logged.
        per_rank: whether the log distinguishes its ranks.
        hosts: host of every rank, or empty.
        job: what is known of the job besides its times: ``strategy``, ``topology``, ``num_servers``, ``num_samples``,
            ``epochs``, ``global_batch_samples``, ``base_frac`` (part of an iteration that no smaller batch saves),
            ``own_clock`` (its settings in seconds are meant for it), ``jct_s``.
        remarks: what a reader of the results must know about this log.
    """

    source: str
    ranks: tuple[str, ...]
    steps: tuple[int, ...]
    own_s: Floats
    comm_s: Floats | None = None
    begin_s: Floats | None = None
    round_s: Floats | None = None
    per_rank: bool = True
    hosts: tuple[str, ...] = ()
    job: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def num_ranks(self) -> int:
        """Number of ranks; 1 if the log does not distinguish them."""
        return len(self.ranks)


def gather(
    source: str,
    rows: pd.DataFrame,
    *,
    whole: Sequence[str] = (),
    remarks: Sequence[str] = (),
    job: dict[str, Any] | None = None,
) -> StepLog:
    """A log of rows, in any order.

    Args:
        source: form of the log, for people and for messages.
        rows: ``rank``, ``step``, ``own_s`` and perhaps ``comm_s``, ``begin_s``, ``round_s``, ``host``.
        whole: columns that are in the frame but hold no value that can be used.
        remarks: what a reader must know.
        job: see :class:`StepLog`.

    Raises:
        LogError: there are no rows, or a rank has a step twice.
    """
    rows = rows.drop(columns=list(whole))
    if not len(rows):
        raise LogError(f"{source}: holds no step; name a log of a job that trained")
    rows = rows.assign(rank=rows["rank"].astype("str"), step=rows["step"].astype("int64"))
    twice = rows.duplicated(["rank", "step"])
    if twice.any():
        first = rows[twice].iloc[0]
        raise LogError(f"{source}: rank {first['rank']} has step {first['step']} twice; give the log of one job")
    ranks = sorted(rows["rank"].unique(), key=natural)
    steps = np.sort(rows["step"].unique())

    def wide(name: str) -> Floats | None:
        if name not in rows or rows[name].isna().all():
            return None
        pivoted = rows.pivot(index="step", columns="rank", values=name)
        return np.asarray(pivoted.reindex(index=steps, columns=ranks).to_numpy("float64"))

    own_s, begin_s, rounds = wide("own_s"), wide("begin_s"), wide("round_s")
    assert own_s is not None
    hosts = rows.groupby("rank")["host"].first().astype("str").reindex(ranks) if "host" in rows else []
    return StepLog(
        source=source,
        ranks=tuple(ranks),
        steps=tuple(int(step) for step in steps),
        own_s=own_s,
        comm_s=wide("comm_s"),
        begin_s=None if begin_s is None else begin_s - np.nanmin(begin_s),
        round_s=None if rounds is None else np.nanmax(rounds, axis=1),
        hosts=tuple(hosts),
        job=dict(job or {}),
        remarks=tuple(remarks),
    )


def tell_apart(log: StepLog) -> StepLog:
    """The log itself, or as whole steps if every rank logged the same times: those contain the wait for the slowest.

    Where a log separates a rank's own work from the rest, equal times mean that nobody is late.
    """
    if log.num_ranks < 2:
        return _whole(log, "the log has one rank only")
    if log.comm_s is not None or log.round_s is not None:
        return log
    spread = np.nanmax(log.own_s, axis=1) / np.nanmin(log.own_s, axis=1) - 1.0
    if float(np.mean(spread < SAME_SPREAD)) < NEARLY_ALL:
        return log
    return _whole(
        log,
        f"all {log.num_ranks} ranks logged the same times (within {SAME_SPREAD:.0%}): nobody is late, or they include "
        "the wait for the slowest; name a column of computing or communication seconds to tell who is",
    )


def _whole(log: StepLog, why: str) -> StepLog:
    seconds = np.nanmax(log.own_s, axis=1)
    return StepLog(
        source=log.source,
        ranks=("all",),
        steps=log.steps,
        own_s=seconds[:, None],
        round_s=seconds if log.round_s is None else log.round_s,
        per_rank=False,
        job=log.job,
        remarks=(*log.remarks, why),
    )


def without_first(log: StepLog, count: int) -> StepLog:
    """The log without its first steps, in which things are set up; times begin with what is left."""
    return _of(log, np.arange(len(log.steps)) >= count)


def timed(log: StepLog) -> StepLog:
    """The log without steps of which no rank has a time; times begin with what is left."""
    return _of(log, np.asarray(~np.isnan(log.own_s).all(axis=1)))


def _of(log: StepLog, chosen: NDArray[np.bool_]) -> StepLog:
    """Some of its steps: [steps] whether each is one of them."""

    def rest(values: Floats | None) -> Floats | None:
        return None if values is None else values[chosen]

    begin_s = rest(log.begin_s)
    return replace(
        log,
        steps=tuple(compress(log.steps, chosen)),
        own_s=log.own_s[chosen],
        comm_s=rest(log.comm_s),
        begin_s=None if begin_s is None else begin_s - np.nanmin(begin_s),
        round_s=rest(log.round_s),
    )


def spent_s(log: StepLog, steps: int) -> float:
    """Seconds of the first ``steps`` steps, of a job in which all wait for all; more than there are: in proportion."""
    slowest = np.nanmax(log.own_s, axis=1)
    if log.round_s is None:
        rounds = slowest
    else:
        over = float(np.nanmedian(log.round_s - slowest))
        rounds = np.where(np.isnan(log.round_s), slowest + over, log.round_s)
    count = min(steps, len(rounds))
    return float(rounds[:count].sum()) * steps / count
