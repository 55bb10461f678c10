"""Who plays in a live run: servers and workers, or replicas. The one place that chooses."""

from __future__ import annotations

from typing import Any, NamedTuple

from runtime.live.control.port import LivePort
from runtime.live.control.replica_port import NativePort, ReplicaPort
from runtime.live.control.replicas import InseparableSupervisor, ReplicaSupervisor
from runtime.live.control.supervisor import Supervisor


class Cast(NamedTuple):
    """Classes that belong together."""

    supervisor: type[Any]
    port: type[Any]


SERVERS = Cast(Supervisor, LivePort)
REPLICAS = Cast(ReplicaSupervisor, ReplicaPort)


def cast_for(collective: str) -> Cast:
    """By who sums the gradients of replicas; empty: servers do."""
    if not collective:
        return SERVERS
    return Cast(InseparableSupervisor, NativePort) if collective == "ddp" else REPLICAS
