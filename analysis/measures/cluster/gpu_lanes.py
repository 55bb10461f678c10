"""Which GPU of its host a worker is drawn on: records say how many GPUs of a host a job holds, not which. Pure."""

from __future__ import annotations

import pandas as pd

from analysis.records.cluster import Cluster

MOST = 64
"""Lanes that fit on a page."""


def gpu_lanes(cluster: Cluster) -> pd.DataFrame:
    """Per worker and span: ``host``, ``gpu`` (the lowest free number), ``job``, ``start_s``, ``end_s``, ``ended``.

    Only a host with more workers than GPUs, which :mod:`analysis.measures.cluster.checks` reports, has numbers beyond.
    """
    tasks = [
        (row.start_s, row.end_s, row.job, row.ended, host)
        for row in cluster.spans.itertuples()
        if row.end_s > row.start_s
        for host in row.workers
    ]
    free_at: dict[int, list[float]] = {}
    rows = []
    for start_s, end_s, job, ended, host in sorted(tasks, key=lambda task: (task[0], task[4])):
        lanes = free_at.setdefault(host, [])
        gpu = next((number for number, since_s in enumerate(lanes) if since_s <= start_s), len(lanes))
        lanes[gpu : gpu + 1] = [end_s]
        rows.append((host, gpu, job, start_s, end_s, ended))
    return pd.DataFrame(rows, columns=["host", "gpu", "job", "start_s", "end_s", "ended"])


def drawn_hosts(gpus: pd.Series, most: int = MOST) -> list[int]:
    """Hosts (the index of ``gpus``) whose lanes fit: all, or as many as do, evenly spaced; always one."""
    hosts = [int(host) for host in gpus.index if gpus[host] > 0]
    if not hosts or sum(gpus[host] for host in hosts) <= most:
        return hosts
    number = max(1, int(most // max(gpus[host] for host in hosts)))
    return [hosts[place * len(hosts) // number] for place in range(number)]
