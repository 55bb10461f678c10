"""Stragglers of all jobs of a cluster: one job's record after another is read, summed up and released."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.measures.cluster.deviations import (
    STEPS,
    changes_of,
    compare_workers,
    job_stragglers,
    slowest_of,
    step_deviations,
)
from analysis.measures.cluster.episodes import COLUMNS, episodes, with_neighbours
from analysis.measures.cluster.histogram import PERCENTS, counts, tabulate
from analysis.measures.cluster.occupancy import Occupancy
from analysis.records.cluster import Cluster
from analysis.records.job_rows import read_job_rows
from analysis.records.load import RecordError, load_object

MOST_SERVERS = 3
"""Workers are grouped by the number of parameter servers on their host: 0, 1, 2, and this many or more."""
EPISODE_COLUMNS = (
    "job",
    *(name for name in COLUMNS if name != "span"),
    "neighbours",
    "server_neighbours",
    "host_servers",
)


@dataclass(frozen=True, eq=False)
class Straggling:
    """The known stragglers of a run.

    ``jobs``: a row per job with comparable iterations, ``job`` and what
    :func:`analysis.measures.cluster.deviations.job_stragglers` returns. ``episodes``: of all jobs, as
    :func:`analysis.measures.cluster.episodes.with_neighbours` returns them. ``deviations``: how many lie between which
    edges (:mod:`analysis.measures.cluster.histogram`), by kind: ``iteration`` (of the slowest worker), ``worker``, and
    of workers by the parameter servers on their host, ``servers=0`` and so on. ``unread``: which records were left
    out, and why. ``others`` has counts by hundredths (none if the rest was read from stored tables): ``change`` (T
    relative to the same worker's previous iteration, minus 1), ``communication`` (its share of T) and, of the slowest
    worker by a step of ``STEPS`` alone, ``data_deviation`` and so on.
    """

    jobs: pd.DataFrame
    episodes: pd.DataFrame
    deviations: pd.DataFrame
    unread: tuple[str, ...] = ()
    others: pd.DataFrame = field(default_factory=lambda: tabulate({}))


def straggling(cluster: Cluster) -> Straggling | None:
    """The stragglers of every job that has a record; None if no job has one (``detail=gpus_only``)."""
    folders = cluster.folders
    if not folders:
        return None
    occupancy, spans = Occupancy(cluster.spans), dict(list(cluster.spans.groupby("job")))
    totals: dict[str, np.ndarray] = defaultdict(lambda: counts(np.empty(0)))
    others: dict[str, np.ndarray] = defaultdict(lambda: counts(np.empty(0), PERCENTS))
    jobs, found, unread = [], [], []
    for job, zero_s in zip(cluster.jobs["job"], cluster.jobs["zero_s"], strict=True):
        if job not in folders or job not in spans or np.isnan(zero_s):
            continue
        try:
            rows = _compare(folders[job])
        except RecordError as error:
            unread.append(str(error))
            continue
        if not len(rows):
            unread.append(f"job {job}: no iteration that two workers have completed")
            continue
        jobs.append({"job": job, **job_stragglers(rows)})
        mine = episodes(rows, zero_s, spans[job])
        found.append(with_neighbours(mine, job, spans[job], occupancy))
        for kind, number in _histograms(rows, zero_s, spans[job], occupancy).items():
            totals[kind] = totals[kind] + number
        for kind, values in _others(rows).items():
            others[kind] = others[kind] + counts(values, PERCENTS)
    return Straggling(
        jobs=pd.DataFrame(jobs, columns=list(jobs[0]) if jobs else ["job", "straggler_frac"]),
        episodes=_join_runs(found),
        deviations=tabulate(dict(sorted(totals.items()))),
        others=tabulate(dict(sorted(others.items())), PERCENTS),
        unread=tuple(unread),
    )


def _compare(folder: Path) -> pd.DataFrame:
    """The iterations of a job; of a ring without communication.

    The sum on its way round the ring is the same for all members, who wait for each other meanwhile, and a worker that
    has left the ring has transfers of its own instead.
    """
    rows, about = read_job_rows(folder), folder / "meta.json"
    if about.is_file() and (load_object(about).get("job") or {}).get("topology") == "allreduce":
        rows = rows.assign(**dict.fromkeys(("pull_s", "send_s", "recv_s"), 0.0))
    return compare_workers(rows)


def _join_runs(found: list[pd.DataFrame]) -> pd.DataFrame:
    some = [frame for frame in found if len(frame)]
    return (
        pd.concat(some, ignore_index=True)[list(EPISODE_COLUMNS)]
        if some
        else pd.DataFrame(columns=list(EPISODE_COLUMNS))
    )


def _histograms(
    rows: pd.DataFrame, offset_s: float, spans: pd.DataFrame, occupancy: Occupancy
) -> dict[str, np.ndarray]:
    deviation = rows["deviation_frac"].to_numpy()
    slowest = slowest_of(rows)
    totals = {"iteration": counts(slowest), "worker": counts(deviation)}
    begun = offset_s + (rows["t"] - rows["time_s"]).to_numpy()
    span = np.maximum(0, np.searchsorted(spans["start_s"].to_numpy(), begun, side="right") - 1)
    worker, servers = rows["worker"].to_numpy(), np.full(len(rows), -1)
    for place, hosts in enumerate(spans["workers"]):
        for number, host in enumerate(hosts):
            mine = (span == place) & (worker == number)
            servers[mine] = occupancy.servers_at(host, begun[mine])
    for number in range(MOST_SERVERS + 1):
        mine = servers >= number if number == MOST_SERVERS else servers == number
        totals[f"servers={number}"] = counts(deviation[mine])
    return totals


def _others(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    share = (rows["pull_s"] + rows["send_s"]) / rows["time_s"]
    steps = {f"{name}_deviation": step_deviations(rows, name) for name in STEPS}
    return {"change": changes_of(rows), "communication": share.to_numpy(), **steps}


def straggler_summary(found: Straggling) -> dict[str, Any]:
    """The numbers that the study reports of all jobs together; NaN where there is nothing to count.

    ``iterations_with_straggler_frac`` of all compared iterations; over jobs: ``jobs_any_frac`` with any,
    ``jobs_above_half_frac`` with stragglers in more than half of their iterations, ``job_min_frac`` and
    ``job_max_frac``, and ``data_``, ``compute_`` and ``communication_`` ``any_frac`` and ``above_half_frac`` by these
    durations alone; ``delay_frac``, ``waste_frac`` over the iterations of all jobs (waste weighted by workers);
    ``episodes``, their length as ``episode_iterations`` and ``episode_s`` (median, p90, p99, longest), ``causes`` and
    ``causes_lost_s`` (numbers and seconds lost by cause), ``with_neighbours_frac``: share of episodes in which another
    job had a task on the worker's host or on one of the servers'.
    """
    jobs, lot = found.jobs, found.episodes
    if not len(jobs):
        return {"jobs": 0, "episodes": 0}
    share, compared_ = jobs["straggler_frac"], jobs["compared"]
    spent_s, slowest_s = ((jobs[name] * jobs["workers"]).sum() for name in ("mean_s", "slowest_s"))
    by_step = {}
    for name in STEPS:
        column = jobs[f"{name}_straggler_frac"].dropna()
        by_step[f"{name}_any_frac"] = float((column > 0.0).sum() / len(jobs))
        by_step[f"{name}_above_half_frac"] = float((column > 0.5).sum() / len(jobs))
    near = (lot["neighbours"] != "") | (lot["server_neighbours"] != "")
    return {
        "jobs": len(jobs),
        "iterations": int(compared_.sum()),
        "iterations_with_straggler_frac": float((share * compared_).sum() / compared_.sum()),
        "jobs_any_frac": float((share > 0.0).mean()),
        "jobs_above_half_frac": float((share > 0.5).mean()),
        "job_min_frac": float(share.min()),
        "job_max_frac": float(share.max()),
        **by_step,
        "delay_frac": float(jobs["slowest_s"].sum() / jobs["mean_s"].sum() - 1.0),
        "waste_frac": float(1.0 - spent_s / slowest_s),
        "episodes": len(lot),
        "episode_iterations": _lengths(lot["iterations"]),
        "episode_s": _lengths(lot["end_s"] - lot["start_s"]),
        "causes": {str(cause): int(number) for cause, number in lot["cause"].value_counts().items()},
        "causes_lost_s": {str(cause): float(sum_s) for cause, sum_s in lot.groupby("cause")["lost_s"].sum().items()},
        "with_neighbours_frac": float(near.mean()) if len(lot) else nan,
        "unread": list(found.unread),
    }


def _lengths(values: pd.Series) -> dict[str, float]:
    if not len(values):
        return dict.fromkeys(("median", "p90", "p99", "longest"), nan)
    median, p90, p99, longest = np.quantile(values.to_numpy(dtype="float64"), [0.5, 0.9, 0.99, 1.0])
    return {"median": float(median), "p90": float(p90), "p99": float(p99), "longest": float(longest)}
