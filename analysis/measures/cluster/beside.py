"""Workers that share their host with a parameter server of another job, and the cost of this. Pure.

STAR's figure 11: a job's server and workers of two other jobs are on one host, and the job leaves SSGD.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import numpy as np
import pandas as pd

from analysis.measures.cluster.deviations import compare_workers, is_slow
from analysis.measures.cluster.hosts import busier_frac, holding_times
from analysis.records.cluster import Cluster
from analysis.records.job_rows import read_job_rows

COLUMNS = ("job", "worker", "iterations", "time_s", "straggler_frac")


def together(cluster: Cluster) -> pd.DataFrame:
    """When a host holds a worker of one job and a server of another: ``host``, ``job`` (the worker's), and the times.

    ``start_s``, ``end_s``; one row for every pair of jobs.
    """
    workers, servers = holding_times(cluster, "workers"), holding_times(cluster, "servers")
    both = workers.merge(servers, on="host", suffixes=("", "_server"))
    both = both[both["job"] != both["job_server"]]
    start_s, end_s = both[["start_s", "start_s_server"]].max(axis=1), both[["end_s", "end_s_server"]].min(axis=1)
    found = pd.DataFrame({"host": both["host"], "job": both["job"], "start_s": start_s, "end_s": end_s})
    return found[found["end_s"] > found["start_s"]].reset_index(drop=True)


def beside_servers(cluster: Cluster) -> pd.DataFrame:
    """A row per worker for its compared iterations that began while another job's server was on its host.

    ``job``, ``worker``, ``iterations``, ``time_s`` (mean T), ``straggler_frac`` of them. Jobs without a record, and
    workers that were never in such company, have none.
    """
    times = together(cluster)
    rows = [row for job in times["job"].unique() for row in _workers_of(cluster, str(job), times)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _workers_of(cluster: Cluster, job: str, times: pd.DataFrame) -> Iterator[tuple[str, int, int, float, float]]:
    zero_s = float(cluster.jobs.set_index("job").loc[job, "zero_s"])
    if job not in cluster.folders or np.isnan(zero_s):
        return
    rows = compare_workers(read_job_rows(cluster.folders[job]))
    begun_s = zero_s + (rows["t"] - rows["time_s"])
    in_company = np.zeros(len(rows), dtype=bool)
    mine = times[times["job"] == job]
    for span in cluster.spans[cluster.spans["job"] == job].itertuples():
        for worker, host in enumerate(span.workers):
            for one in mine[mine["host"] == host].itertuples():
                since_s, until_s = max(one.start_s, span.start_s), min(one.end_s, span.end_s)
                in_company |= ((rows["worker"] == worker) & (begun_s >= since_s) & (begun_s < until_s)).to_numpy()
    for worker, found in rows[in_company].groupby("worker"):
        yield job, int(worker), len(found), float(found["time_s"].mean()), float(is_slow(found).mean())


def shared_use(cluster: Cluster) -> dict[str, float]:
    """How busy hosts are in such times: ``cpu_frac`` and ``link_frac``, means over samples; NaN without any."""
    samples, times = cluster.hosts, together(cluster)
    chosen = np.zeros(len(samples), dtype=bool)
    for one in times.itertuples():
        chosen |= ((samples["host"] == one.host) & samples["t_s"].between(one.start_s, one.end_s)).to_numpy()
    mine = samples[chosen]
    return {
        f"{name}_frac": float(busier_frac(cluster, mine, name).mean()) if len(mine) else nan for name in ("cpu", "link")
    }
