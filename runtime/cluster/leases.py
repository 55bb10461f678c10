"""Leases: how long a process may be silent before it counts as lost."""

from __future__ import annotations

from runtime.config.parse import Cluster

LEASE_S, ON_HOSTS_S = 2.0, 4.0
"""Tasks of emulated hosts get little processor time, so they may be silent for longer."""
OF_AGENTS = 5
"""The leases of a task for which an agent may be silent: the job ends with it, where a task only starts again."""


def longest_silence_s(lease_s: float | None, cluster: Cluster) -> float:
    """``runtime.lease_s`` in seconds; for None, the default for this cluster."""
    if lease_s is not None:
        return lease_s
    return LEASE_S if cluster.hosts is None else ON_HOSTS_S
