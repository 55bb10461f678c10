"""Do the files of a cluster's record agree with each other and with Little's law?

Every check has a broken record in ``tests/unit/analysis/test_cluster_checks.py`` that it must catch.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

import numpy as np
import pandas as pd

from analysis.measures.cluster.hosts import holding_times
from analysis.measures.cluster.jobs import gpus_used, in_system, running
from analysis.measures.cluster.steps import count_intervals
from analysis.records.cluster import RESIZED, Cluster
from analysis.records.run import Integrity

UNSUBMITTED = "unsubmitted"
"""Status of a job in ``jobs.parquet`` that had not come when the run ended."""
SAME = 1e-6
"""Relative difference that rounding explains."""


def check_cluster(cluster: Cluster, times: pd.DataFrame) -> Integrity:
    """Problems of a record, and what could not be checked."""
    problems = [*_places(cluster), *_check_crowding(cluster)]
    unchecked = []
    if cluster.stored is None:
        unchecked.append("Little's law: jobs.parquet is missing, the run did not come to its end")
    else:
        problems += [*_little(cluster, times, cluster.stored), *_jobs(cluster, cluster.stored)]
    if len(cluster.hosts):
        problems += _samples(cluster)
    else:
        unchecked.append("samples of the hosts: there are none")
    return Integrity(tuple(problems), tuple(unchecked))


def _little(cluster: Cluster, times: pd.DataFrame, stored: pd.DataFrame) -> Iterator[str]:
    """L = lambda W: the mean number of jobs over time by the events, arrivals and times in the system by the table.

    The same for the jobs that run: those with GPUs are a system that jobs enter and leave with every start.
    """
    end_s = cluster.end_s
    if end_s <= 0.0 or not len(stored):
        return
    stored = stored[stored["status"] != UNSUBMITTED]
    spent_s = stored["end_s"].fillna(end_s).clip(upper=end_s) - stored["submit_s"]
    pairs = [("in the system", in_system(times), spent_s.to_numpy(dtype="float64"))]
    once = stored[(stored["starts"] == 1) & (stored["preemptions"] == 0)]
    if len(once) == (stored["starts"] > 0).sum():  # the table has no times of later starts
        pairs.append(("with GPUs", running(cluster), (once["end_s"].fillna(end_s) - once["start_s"]).to_numpy()))
    for what, number, seconds in pairs:
        mean, rate, stay_s = (
            number.mean(0.0, end_s),
            len(seconds) / end_s,
            float(seconds.mean()) if len(seconds) else 0.0,
        )
        if not isclose(mean, rate * stay_s, rel_tol=SAME, abs_tol=SAME):
            yield (
                f"Little's law: {mean:.6g} jobs {what} on average by cluster.jsonl, but by jobs.parquet "
                f"{rate:.6g} per second x {stay_s:.6g} s = {rate * stay_s:.6g}"
            )


def _jobs(cluster: Cluster, stored: pd.DataFrame) -> Iterator[str]:
    """The table of jobs says what the events say."""
    submitted = stored[stored["status"] != UNSUBMITTED].drop_duplicates("job")
    ours, theirs = cluster.jobs.set_index("job"), submitted.set_index("job")
    if missing := sorted(set(ours.index) ^ set(theirs.index)):
        yield f"jobs.parquet and cluster.jsonl do not have the same jobs: {' '.join(missing[:5])}"
    common = ours.index.intersection(theirs.index)
    for name in ("submit_s", "start_s", "end_s", "starts", "preemptions"):
        if name not in theirs:
            continue
        left, right = (frame.loc[common, name].to_numpy(dtype="float64") for frame in (ours, theirs))
        wrong = common[~np.isclose(left, right, rtol=SAME, atol=SAME, equal_nan=True)]
        if len(wrong):
            yield f"jobs.parquet: {name} differs from cluster.jsonl for {len(wrong)} jobs, such as {wrong[0]}"


def _places(cluster: Cluster) -> Iterator[str]:
    """Every job of a fixed size has a GPU for each of its workers, on hosts that exist."""
    resized = set(cluster.spans.loc[cluster.spans["ended"] == RESIZED, "job"])
    needs = cluster.jobs.set_index("job")["gpus"]
    known = set(cluster.machines.index)
    for row in cluster.spans.itertuples():
        if len(row.workers) != needs[row.job] and row.job not in resized:
            yield f"job {row.job}: placed with {len(row.workers)} workers, but it needs {needs[row.job]} GPUs"
        if unknown := (set(row.workers) | set(row.servers)) - known:
            yield f"job {row.job}: placed on unknown hosts {sorted(unknown)}"


def _check_crowding(cluster: Cluster) -> Iterator[str]:
    """No host ever holds more workers than it has GPUs."""
    for host, rows in holding_times(cluster, "workers").groupby("host"):
        used = count_intervals(rows["start_s"], rows["end_s"], rows["tasks"])
        gpus = cluster.machines["gpus"].get(host, 0)
        if used.peak > gpus:
            t = used.t[int(used.value.argmax())]
            yield f"host {host}: {used.peak:.0f} workers at t = {t:.3f} s on {gpus} GPUs"


def _samples(cluster: Cluster) -> Iterator[str]:
    """Samples count the GPUs that placements use; at the instant of a change they may count either way."""
    used, spans = gpus_used(cluster), cluster.spans
    sums = cluster.hosts.groupby("t_s")["gpus_used"].sum()
    changes = np.unique(np.concatenate([spans["start_s"], spans["end_s"]]))
    t = sums.index.to_numpy(dtype="float64")
    near = np.searchsorted(changes, t)
    edges = np.concatenate([[-np.inf], changes, [np.inf]])
    clear = (t - edges[near] > SAME) & (edges[near + 1] - t > SAME)
    wrong = t[clear & (np.abs(sums.to_numpy() - used.at(t)) > SAME)]
    if len(wrong):
        yield f"hosts.parquet: at {len(wrong)} times not the GPUs of the placements, such as t = {wrong[0]:.3f} s"
