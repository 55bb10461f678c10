"""How long a process may be silent before it counts as lost, where nobody says so."""

from __future__ import annotations

from runtime.config.parse import Cluster

LEASE_S, ON_HOSTS_S = 2.0, 4.0
"""Tasks of emulated hosts have little processor time, and may be silent for longer."""


def longest_silence_s(lease_s: float | None, cluster: Cluster) -> float:
    """``runtime.lease_s``; None: what suits the cluster."""
    if lease_s is not None:
        return lease_s
    return LEASE_S if cluster.hosts is None else ON_HOSTS_S
