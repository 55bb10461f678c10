"""Rows of a log as a log: of every rank and step one time, and whether the times tell ranks apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.files import natural
from analysis.logs.limits import LEAST_SECONDS, MOST_CELLS, MOST_RANKS
from analysis.logs.rows import PART
from analysis.logs.step_log import RESTARTED, Extremes, Floats, LogError, StepLog, rounds_s
from reading.errors import shown

SAME_SPREAD = 0.01
"""Ranks whose times differ by less, as a part of nearly every step, have logged the step and not their own work."""
NEARLY_ALL = 0.95
SAME_TOTAL = 0.02
"""Ranks that wait for each other spend the same time on all steps, but for so much of it."""


def gather(
    source: str,
    rows: pd.DataFrame,
    *,
    remarks: Sequence[str] = (),
    job: dict[str, Any] | None = None,
    own_is_rest: bool = False,
    extremes: Mapping[int, tuple[Extremes, ...]] | None = None,
) -> StepLog:
    """A log of rows, in any order; in the order of time, if steps were done again.

    Args:
        source: form of the log, for people and for messages.
        rows: ``rank``, ``step``, ``own_s`` and perhaps ``comm_s``, ``data_s``, ``begin_s``, ``round_s``, ``host`` and
            parts of steps. Of a step that was done again the last row counts.
        remarks: what a reader must know.
        job: see :class:`StepLog`.
        own_is_rest: see :class:`StepLog`.
        extremes: see :class:`StepLog`.

    Raises:
        LogError: there are no rows, too many, or several processes have the same rank.
    """
    if not len(rows):
        raise LogError(f"{source}: holds no step; name a log of a job that trained")
    ranks_of_rows = rows["rank"]
    if not isinstance(ranks_of_rows.dtype, pd.CategoricalDtype):  # a text per row would take most of the memory
        ranks_of_rows = ranks_of_rows.astype("str").astype("category")
    rows = rows.assign(rank=ranks_of_rows, step=rows["step"].astype("int64"))
    rows, restart, repeated = _latest(source, rows)
    num_ranks = rows["rank"].nunique()
    if num_ranks > MOST_RANKS:
        raise LogError(
            f"{source}: has {num_ranks:,} ranks, and no more than {MOST_RANKS:,} are read; give a part of them"
        )
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
        part_fracs={name: fracs for column in rows if (name := _part(column)) and (fracs := wide(column)) is not None},
        extremes=dict(extremes or {}),
        job={**restart, **(job or {})},
        remarks=(*remarks, *repeated),
    )


def _part(column: str) -> str:
    return column.removeprefix(PART) if column.startswith(PART) else ""


def _together(rounds: Floats, own_s: Floats) -> Floats:
    """[steps] seconds of whole steps: the median rank's if all contain the wait for the slowest, else the longest.

    Clocks of ranks read the end of a step a little apart, and the longest of many would add up to more than any rank's.
    """
    middle, totals = np.nanmedian(rounds, axis=1), np.nanmean(rounds, axis=0)
    waits = float(np.mean(middle >= (1.0 - SAME_SPREAD) * np.nanmax(own_s, axis=1))) >= NEARLY_ALL
    alike = totals.max() - totals.min() < SAME_TOTAL * totals.min()
    return np.asarray(middle if waits and alike else np.nanmax(rounds, axis=1))


def refuse_several(source: str, rows: pd.DataFrame) -> None:
    """Refuse rows of several processes with the same name: a restarted job's steps go back once, theirs all the time.

    Raises:
        LogError: the steps of a rank do not increase in more than half as many rows as there are steps.
    """
    backwards = rows.groupby("rank", observed=True)["step"].diff() <= 0
    most = int(backwards.groupby(rows["rank"], observed=True).sum().max())
    if most > rows["step"].nunique() / 2:
        first = rows[rows.duplicated(["rank", "step"])].iloc[0]
        raise LogError(
            f"{source}: rank {shown(first['rank'])} has step {first['step']} twice, and its steps do not increase "
            f"{most} times; give the log of one job, with one time per rank and step (of single operations their sum), "
            "and the rank of every line (torchrun: --role rank --tee 3, srun: --label) or row (a column rank)"
        )


def _restart(rows: pd.DataFrame) -> dict[str, float]:
    """The seconds of a restart by which steps were done again, if the log says when: from the first try to the next.

    They contain the work that is done again. A rank's first restart counts, and of ranks the median. If the first step
    is there again, steps may be counted from the start in every epoch.
    """
    again = rows.duplicated(["rank", "step"], keep=False)
    if "begin_s" not in rows or rows.loc[again, "step"].min() == rows["step"].min():
        return {}
    tries = rows[again].sort_values(["rank", "step"], kind="stable")
    tries = tries.assign(since_s=tries.groupby(["rank", "step"], observed=True)["begin_s"].diff())
    first = tries[tries["since_s"] > 0].groupby("rank", observed=True)["since_s"].first()
    return {RESTARTED: float(first.median())} if len(first) else {}


def _latest(source: str, rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, float], list[str]]:
    """Keep the later try of steps that a job did again after a restart; returns what that cost, and remarks."""
    earlier = rows.duplicated(["rank", "step"], keep="last")
    if not earlier.any():
        return rows, {}, []
    refuse_several(source, rows)
    again = rows.loc[earlier, "step"]
    again_all = again.min() == rows["step"].min() and again.max() == rows["step"].max()
    cure = (
        "; if steps are counted from the start again in every epoch, give their number since the job began"
        if again_all
        else ""
    )
    remark = (
        f"{again.nunique()} steps from {again.min()} to {again.max()} are there more than once, as of a job that was "
        f"restarted: the last time counts{cure}"
    )
    return rows[~earlier], _restart(rows), [remark]


def tell_apart(log: StepLog) -> StepLog:
    """The log itself, or as whole steps if every rank logged the same times: those contain the wait for the slowest.

    Where a log separates a rank's own work from the rest, equal times mean that no rank is late.
    """
    if log.num_ranks < 2:
        return _whole(log, *([] if log.extremes else ["the log has one rank only"]))
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


def _whole(log: StepLog, *why: str) -> StepLog:
    seconds = rounds_s(log)  # own work is no step if more is known
    alone = log.num_ranks == 1  # the parts of its time are parts of the step
    return StepLog(
        source=log.source,
        ranks=("all",),
        steps=log.steps,
        own_s=seconds[:, None],
        comm_s=log.comm_s if alone else None,
        data_s=log.data_s if alone else None,
        round_s=seconds,
        per_rank=False,
        part_fracs=log.part_fracs if alone else {},
        extremes=log.extremes,
        job=log.job,
        remarks=(*log.remarks, *why),
    )
