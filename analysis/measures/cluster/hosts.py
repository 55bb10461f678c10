"""How much of each host was used: GPUs from placements, exactly; processors and links from samples. Pure."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.measures.cluster.occupancy import Occupancy
from analysis.measures.cluster.steps import count_intervals
from analysis.measures.injections import PAYLOAD_FRAC
from analysis.records.cluster import Cluster

COUNTS_PAYLOAD = "virtual"
"""The runtime whose samples are payload; elsewhere they are what links count, with headers."""
HIGH_FRAC = (0.9, 0.98)
"""STAR, section III-C (Fig. 9): how often the use of a server's processor or link is above these shares."""


def holding_times(cluster: Cluster, role: str) -> pd.DataFrame:
    """A row per host and time in which it held tasks of a job: ``host``, ``job``, ``start_s``, ``end_s``, ``tasks``.

    ``role``: ``workers`` or ``servers``.
    """
    spans = cluster.spans
    rows = [
        (host, row.job, row.start_s, row.end_s, places.count(host))
        for row, places in zip(spans.itertuples(), spans[role], strict=True)
        for host in sorted(set(places))
    ]
    frame = pd.DataFrame(rows, columns=["host", "job", "start_s", "end_s", "tasks"])
    return frame.astype({"host": "int64", "start_s": "float64", "end_s": "float64", "tasks": "int64"})


def host_use(cluster: Cluster, start_s: float, end_s: float) -> pd.DataFrame:
    """A row per host over the given time.

    ``host``, ``gpus``; means over time: ``gpus_used``, ``gpu_use_frac``, ``servers`` (server tasks on it); from the
    samples, NaN where there are none: ``cpu_cores``, ``in_bytes_per_s``, ``out_bytes_per_s`` (means), ``cpu_frac`` and
    ``link_frac`` (of what the host has; of the busier direction), and for each of ``HIGH_FRAC`` the share of samples
    above it, ``cpu_above_90_frac``, ``link_above_90_frac`` and so on.
    """
    machines, samples = cluster.machines.assign(link_bytes_per_s=link_rates(cluster)), cluster.hosts
    inside = samples[samples["t_s"].between(start_s, end_s)]
    tasks = {role: dict(list(holding_times(cluster, role).groupby("host"))) for role in ("workers", "servers")}
    rows = []
    for host, machine in machines.iterrows():
        used, servers = (_mean(tasks[role].get(host), start_s, end_s) for role in ("workers", "servers"))
        share = used / machine["gpus"] if machine["gpus"] else np.nan
        row = {"host": host, "gpus": int(machine["gpus"]), "gpus_used": used, "gpu_use_frac": share, "servers": servers}
        rows.append(row | _sample(inside[inside["host"] == host], machine))
    return pd.DataFrame(rows)


def busy_shares(cluster: Cluster, resource: str, limit_frac: float, servers: tuple[int, int | None]) -> float:
    """Share of the samples of hosts with so many parameter servers in which a resource is used above a limit.

    ``resource``: ``cpu``, or ``link`` in its busier direction; ``servers``: at least, and at most (None: no limit), at
    the time of the sample. NaN without such samples.
    """
    samples, least, most = host_samples(cluster, resource), servers[0], servers[1]
    chosen = samples.loc[samples["servers"].between(least, np.inf if most is None else most), "used_frac"]
    return float((chosen > limit_frac).mean()) if len(chosen) else np.nan


def host_samples(cluster: Cluster, resource: str) -> pd.DataFrame:
    """A row per sample of a host: ``servers`` on it at that time, and ``used_frac`` of a resource (if known).

    ``resource``: as of :func:`busy_shares`.
    """
    samples, occupancy = cluster.hosts, Occupancy(cluster.spans)
    there = np.zeros(len(samples), dtype="int64")
    for host in samples["host"].unique():
        mine = (samples["host"] == host).to_numpy()
        there[mine] = occupancy.servers_at(int(host), samples.loc[mine, "t_s"])
    used = busier_frac(cluster, samples, resource)
    return pd.DataFrame({"servers": there, "used_frac": used}).dropna(ignore_index=True)


def busier_frac(cluster: Cluster, samples: pd.DataFrame, resource: str) -> np.ndarray:
    """Return the fraction of its host's processor (``cpu``) or link (``link``, the busier direction) in use."""
    if resource == "cpu":
        cores = cluster.machines["cores"].reindex(samples["host"])
        return np.asarray(samples["cpu_cores"].to_numpy() / cores.to_numpy())
    busier = samples[["in_bytes_per_s", "out_bytes_per_s"]].max(axis="columns")
    return np.asarray(busier.to_numpy() / link_rates(cluster).reindex(samples["host"]).to_numpy())


def link_rates(cluster: Cluster) -> pd.Series:
    """Bytes per second of a full link as its samples count them, each way, by host; NaN: it has no limit."""
    rates = cluster.machines["link_bytes_per_s"]
    return rates * PAYLOAD_FRAC if cluster.meta["runtime"] == COUNTS_PAYLOAD else rates


def _mean(tasks: pd.DataFrame | None, start_s: float, end_s: float) -> float:
    if tasks is None:
        return 0.0 if end_s > start_s else np.nan
    return count_intervals(tasks["start_s"], tasks["end_s"], tasks["tasks"]).mean(start_s, end_s)


def _sample(rows: pd.DataFrame, machine: pd.Series) -> dict[str, float]:
    cpu = rows["cpu_cores"] / machine["cores"]
    link = rows[["in_bytes_per_s", "out_bytes_per_s"]].max(axis="columns") / machine["link_bytes_per_s"]
    found = {name: float(rows[name].mean()) for name in ("cpu_cores", "in_bytes_per_s", "out_bytes_per_s")}
    for name, share in (("cpu", cpu), ("link", link)):
        known = share.dropna()
        found[f"{name}_frac"] = float(known.mean())
        for high in HIGH_FRAC:
            found[f"{name}_above_{high * 100:.0f}_frac"] = float((known > high).mean())
    return found
