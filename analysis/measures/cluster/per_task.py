"""The average use of a task, from hosts that hold nothing but workers, or nothing but servers (pure)."""

from __future__ import annotations

from math import nan

import pandas as pd

from analysis.measures.cluster.hosts import host_use
from analysis.records.cluster import Cluster

ROLES = ("server", "worker")


def use_per_task(cluster: Cluster) -> dict[str, float]:
    """Means over the time in which any job has GPUs, over all tasks of a role; STAR's figure 8.

    ``server_cores`` and ``worker_cores``; ``server_bytes_per_s`` and ``worker_bytes_per_s`` in the busier direction of
    their host; ``used_cores`` and ``used_bytes_per_s`` of all hosts together. NaN for a role that is on no host of its
    own, and without samples.
    """
    spans = cluster.spans
    if not len(spans):
        return dict.fromkeys(_names(), nan)
    hosts = host_use(cluster, float(spans["start_s"].min()), float(spans["end_s"].max()))
    hosts["bytes_per_s"] = hosts[["in_bytes_per_s", "out_bytes_per_s"]].max(axis="columns")
    found = {}
    for role, own, others in (("server", "servers", "gpus_used"), ("worker", "gpus_used", "servers")):
        alone = hosts[(hosts[own] > 0.0) & (hosts[others] == 0.0)]
        tasks = float(alone[own].sum())
        for name, column in (("cores", "cpu_cores"), ("bytes_per_s", "bytes_per_s")):
            found[f"{role}_{name}"] = _sum(alone[column]) / tasks if tasks else nan
    found["used_cores"], found["used_bytes_per_s"] = _sum(hosts["cpu_cores"]), _sum(hosts["bytes_per_s"])
    return found


def _names() -> list[str]:
    return [f"{who}_{name}" for who in (*ROLES, "used") for name in ("cores", "bytes_per_s")]


def _sum(values: pd.Series) -> float:
    return float(values.sum(skipna=False))
