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
from analysis.logs.limits import LEAST_SECONDS, MOST_CELLS
from analysis.records.log import RecordError
from reading.errors import shown

Floats = NDArray[np.float64]

SAME_SPREAD = 0.01
"""Ranks whose times differ by less, as a part of nearly every step, have logged the step and not their own work."""
NEARLY_ALL = 0.95
SAME_TOTAL = 0.02
"""Ranks that wait for each other spend the same time on all steps, but for so much of it."""


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
        data_s: [steps, ranks] seconds of loading, a part of ``own_s``; None: not logged.
        begin_s: [steps, ranks] when the work of that step began, from the log's first; None: not logged.
        round_s: [steps] seconds from one step's end to the next's, of all ranks; None: not logged.
        own_is_rest: whether own work is what transfers leave of a step, so that it may contain the wait for others.
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
    data_s: Floats | None = None
    begin_s: Floats | None = None
    round_s: Floats | None = None
    own_is_rest: bool = False
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
    remarks: Sequence[str] = (),
    job: dict[str, Any] | None = None,
    own_is_rest: bool = False,
) -> StepLog:
    """A log of rows, in any order; in that of time, if steps were done again.

    Args:
        source: form of the log, for people and for messages.
        rows: ``rank``, ``step``, ``own_s`` and perhaps ``comm_s``, ``data_s``, ``begin_s``, ``round_s``, ``host``. Of a
            step that was done again the last row counts.
        remarks: what a reader must know.
        job: see :class:`StepLog`.
        own_is_rest: see :class:`StepLog`.

    Raises:
        LogError: there are no rows, too many, or several processes have the same rank.
    """
    if not len(rows):
        raise LogError(f"{source}: holds no step; name a log of a job that trained")
    ranks_of_rows = rows["rank"]
    if not isinstance(ranks_of_rows.dtype, pd.CategoricalDtype):  # a text per row would take most of the memory
        ranks_of_rows = ranks_of_rows.astype("str").astype("category")
    rows = rows.assign(rank=ranks_of_rows, step=rows["step"].astype("int64"))
    rows, repeated = _latest(source, rows)
    ranks = sorted(rows["rank"].unique(), key=natural)
    steps = np.sort(rows["step"].unique())
    if len(ranks) * len(steps) > MOST_CELLS:
        raise LogError(
            f"{source}: has {len(ranks):,} ranks and {len(steps):,} steps, and no more than {MOST_CELLS:,} steps of "
            "ranks can be read; give a part of it"
        )

    def wide(name: str) -> Floats | None:
        if name not in rows or rows[name].isna().all():
            return None
        pivoted = rows.pivot(index="step", columns="rank", values=name)
        return np.asarray(pivoted.reindex(index=steps, columns=ranks).to_numpy("float64"))

    own_s, begin_s, rounds = wide("own_s"), wide("begin_s"), wide("round_s")
    assert own_s is not None
    own_s = np.maximum(own_s, LEAST_SECONDS)
    hosts = rows.groupby("rank", observed=True)["host"].first().astype("str").reindex(ranks) if "host" in rows else []
    return StepLog(
        source=source.encode(errors="replace").decode(),  # a file's name may have bytes that are no text
        ranks=tuple(ranks),
        steps=tuple(int(step) for step in steps),
        own_s=own_s,
        comm_s=wide("comm_s"),
        data_s=wide("data_s"),
        begin_s=None if begin_s is None else begin_s - np.nanmin(begin_s),
        round_s=None if rounds is None else _together(rounds, own_s),
        own_is_rest=own_is_rest,
        hosts=tuple(hosts),
        job=dict(job or {}),
        remarks=(*remarks, *repeated),
    )


def _together(rounds: Floats, own_s: Floats) -> Floats:
    """[steps] seconds of whole steps: the median rank's if all contain the wait for the slowest, else the longest.

    Clocks of ranks read the end of a step a little apart, and the longest of many would add up to more than any rank's.
    """
    middle, totals = np.nanmedian(rounds, axis=1), np.nanmean(rounds, axis=0)
    waits = float(np.mean(middle >= (1.0 - SAME_SPREAD) * np.nanmax(own_s, axis=1))) >= NEARLY_ALL
    alike = totals.max() / totals.min() - 1.0 < SAME_TOTAL
    return np.asarray(middle if waits and alike else np.nanmax(rounds, axis=1))


def _latest(source: str, rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Of steps that a job did again after a restart, the later try; and what is said of that."""
    earlier = rows.duplicated(["rank", "step"], keep="last")
    if not earlier.any():
        return rows, []
    steps, first = rows["step"].nunique(), rows[rows.duplicated(["rank", "step"])].iloc[0]
    backwards = int(
        (rows.groupby("rank", observed=True)["step"].diff() <= 0).groupby(rows["rank"], observed=True).sum().max()
    )
    if backwards > steps / 2:
        raise LogError(
            f"{source}: rank {shown(first['rank'])} has step {first['step']} twice, and its steps decrease {backwards} "
            "times; give the log of one job, with the rank of every line (torchrun: --role rank --tee 3, srun: --label)"
        )
    again = rows.loc[earlier, "step"]
    return rows[~earlier], [
        f"{again.nunique()} steps from {again.min()} to {again.max()} are there more than once, as of a job that was "
        "restarted: the last time counts"
    ]


def tell_apart(log: StepLog) -> StepLog:
    """The log itself, or as whole steps if every rank logged the same times: those contain the wait for the slowest.

    Where a log separates a rank's own work from the rest, equal times mean that nobody is late.
    """
    if log.num_ranks < 2:
        return _whole(log, "the log has one rank only")
    if log.comm_s is not None or log.round_s is not None:
        return log
    same = np.nanmax(log.own_s, axis=1) < (1.0 + SAME_SPREAD) * np.nanmin(log.own_s, axis=1)
    if float(np.mean(same)) < NEARLY_ALL:
        return log
    return _whole(
        log,
        f"all {log.num_ranks} ranks logged the same times (within {SAME_SPREAD:.0%}): nobody is late, or they include "
        "the wait for the slowest; name a column of computing or communication seconds to tell who is",
    )


def _whole(log: StepLog, why: str) -> StepLog:
    seconds = rounds_s(log)  # own work is no step if more is known
    return StepLog(
        source=log.source,
        ranks=("all",),
        steps=log.steps,
        own_s=seconds[:, None],
        round_s=seconds,
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
        data_s=rest(log.data_s),
        begin_s=None if begin_s is None else begin_s - np.nanmin(begin_s),
        round_s=rest(log.round_s),
    )


def rounds_s(log: StepLog) -> Floats:
    """[steps] seconds of whole steps; where the log does not say, those of the slowest rank and the usual rest."""
    slowest = np.asarray(np.nanmax(log.own_s, axis=1))
    if log.round_s is None:
        return slowest
    over = float(np.nanmedian(log.round_s - slowest))
    return np.where(np.isnan(log.round_s), slowest + over, log.round_s)
