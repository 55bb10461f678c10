"""The site of each task and its resources, in the units of the cost model (pure)."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from runtime.cluster.hosts import USUAL_PERIOD_S, Hosts
from runtime.core.layout import Layout
from runtime.virtual.costs import Costs

PAYLOAD_FRAC = 1448 / 1514
"""Payload fraction of a full TCP segment with time stamps on Ethernet: a link's rate includes headers."""
THREAD_CORES = 1.0
"""Cores that a task can use at the same time: one thread, unless the cost model says that it computes in more."""


class Site(NamedTuple):
    """One machine; ``name`` is the plan's (``host:2``), or the task's own where every task has its own machine."""

    name: str
    cores: float = inf
    link_bytes_per_s: float = inf
    """Rate of payload in each direction."""
    latency_s: float = 0.0
    quota_period_s: float = USUAL_PERIOD_S
    """Of the quotas of its cores and of its tasks."""


def tasks_of(num_workers: int, num_servers: int) -> list[str]:
    """Names of all tasks, servers first."""
    return [str(node) for node in Layout.initial(num_workers, num_servers).nodes]


def sites_of(hosts: Hosts | None, costs: Costs, num_workers: int, num_servers: int) -> dict[str, Site]:
    """The site of every task. Without hosts each has its own, on the links of the cost model if it has any.

    Hosts whose links have no limit use these links, too.
    """
    tasks = tasks_of(num_workers, num_servers)
    if hosts is None:
        return {task: Site(task, link_bytes_per_s=_default(costs)) for task in tasks}
    sites = sites_of_hosts(hosts, costs)
    return {task: sites[hosts.host_of[task]] for task in tasks}


def sites_of_hosts(hosts: Hosts, costs: Costs) -> list[Site]:
    """The site of every host, also of those without a task."""
    return [
        Site(
            f"host:{host.number}",
            inf if host.cores is None else host.cores,
            _default(costs) if host.link_bytes_per_s is None else host.link_bytes_per_s * PAYLOAD_FRAC,
            host.latency_s,
            host.quota_period_s,
        )
        for host in hosts.hosts
    ]


def _default(costs: Costs) -> float:
    return inf if costs.link_bytes_per_s is None else costs.link_bytes_per_s
