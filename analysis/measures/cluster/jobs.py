"""The times that users of a cluster see: how long each job took, waited, and was slowed down (pure).

A job that did not end with ``done``, or was cut off because its time was up, has an infinite completion time, as
everywhere in this project: it is never left out.
"""

from __future__ import annotations

from math import inf

import numpy as np
import pandas as pd

from analysis.measures.cluster.steps import Steps, count_intervals
from analysis.measures.metrics import TIME_IS_UP
from analysis.records.cluster import Cluster

DONE = "done"
TIMES = ("jct_s", "queue_s", "run_s", "slowdown")


def job_times(cluster: Cluster) -> pd.DataFrame:
    """The cluster's ``jobs`` with ``completed`` and what follows from their times.

    ``in_system_s`` from its submission to its end, or to the end of the record; ``run_s`` of it with GPUs, ``wait_s``
    without; ``jct_s`` = in_system_s if completed, else infinite; ``first_wait_s`` until it first had GPUs and
    ``queue_s`` = wait_s, over all its starts, both infinite for a job that never had any; ``slowdown`` = jct_s /
    duration_s and ``stretch`` = run_s / duration_s (NaN where the duration is unknown; stretch is infinite unless
    completed); ``iterations`` (missing where not recorded).
    """
    jobs, spans = cluster.jobs, cluster.spans
    by_job = spans.assign(run_s=spans["end_s"] - spans["start_s"]).groupby("job")
    run_s = by_job["run_s"].sum().reindex(jobs["job"], fill_value=0.0).to_numpy()
    first_s = by_job["start_s"].min().reindex(jobs["job"]).to_numpy(dtype="float64")
    in_system_s = jobs["end_s"].fillna(cluster.end_s).to_numpy() - jobs["submit_s"].to_numpy()
    completed = ((jobs["status"] == DONE) & ~jobs["reason"].str.startswith(TIME_IS_UP)).to_numpy()
    placed = ~np.isnan(first_s)
    jct_s = np.where(completed, in_system_s, inf)
    return jobs.assign(
        completed=completed,
        in_system_s=in_system_s,
        run_s=run_s,
        wait_s=in_system_s - run_s,
        jct_s=jct_s,
        first_wait_s=np.where(placed, first_s - jobs["submit_s"].to_numpy(), inf),
        queue_s=np.where(placed, in_system_s - run_s, inf),
        slowdown=jct_s / jobs["duration_s"].to_numpy(),
        stretch=np.where(completed, run_s, inf) / jobs["duration_s"].to_numpy(),
        iterations=_iterations(cluster),
    )


def _iterations(cluster: Cluster) -> pd.Series:
    stored = cluster.stored
    if stored is None or "iterations" not in stored:
        return pd.Series(pd.NA, index=cluster.jobs.index, dtype="Int64")
    by_job = stored.drop_duplicates("job").set_index("job")["iterations"].astype("Int64")
    return by_job.reindex(cluster.jobs["job"]).set_axis(cluster.jobs.index)


def window(times: pd.DataFrame, end_s: float) -> tuple[float, float]:
    """From the first submission to the last end; to the end of the record if a job has not ended."""
    if not len(times):
        return 0.0, end_s
    last_s = end_s if times["end_s"].isna().any() else float(times["end_s"].max())
    return float(times["submit_s"].min()), last_s


def makespan_s(times: pd.DataFrame) -> float:
    """From the first submission to the last end; infinite if a job has not ended."""
    start_s, end_s = window(times, inf)
    return end_s - start_s


def in_system(times: pd.DataFrame) -> Steps:
    """Number of jobs that were submitted and have not ended."""
    return count_intervals(times["submit_s"], times["end_s"])


def running(cluster: Cluster) -> Steps:
    """Number of jobs that hold GPUs."""
    return count_intervals(cluster.spans["start_s"], _find_left(cluster.spans))


def gpus_used(cluster: Cluster) -> Steps:
    """Number of GPUs that jobs hold: one for each worker that is placed."""
    spans = cluster.spans
    return count_intervals(spans["start_s"], _find_left(spans), spans["workers"].map(len))


def use_over_time(cluster: Cluster, times: pd.DataFrame) -> pd.DataFrame:
    """A row per change: ``t_s``, ``gpus_used``, ``jobs_running``, ``jobs_queued``, ``gpus_queued`` (they need)."""
    jobs, used, busy = in_system(times), gpus_used(cluster), running(cluster)
    asked = count_intervals(times["submit_s"], times["end_s"], times["gpus"])
    gpus = dict(zip(times["job"], times["gpus"], strict=True))
    granted = count_intervals(cluster.spans["start_s"], _find_left(cluster.spans), cluster.spans["job"].map(gpus))
    t = np.unique(np.concatenate([jobs.t, used.t, [cluster.end_s]]))
    return pd.DataFrame(
        {
            "t_s": t,
            "gpus_used": used.at(t),
            "jobs_running": busy.at(t),
            "jobs_queued": jobs.at(t) - busy.at(t),
            "gpus_queued": asked.at(t) - granted.at(t),
        }
    )


def _find_left(spans: pd.DataFrame) -> pd.Series:
    """When GPUs were given back; NaN where the job still holds them at the end of the record."""
    return spans["end_s"].where(spans["ended"] != "open")
