"""The port of a live run for each collective. The one place that chooses."""

from __future__ import annotations

from runtime.live.control.port import LivePort
from runtime.live.control.replica_port import NativePort, ReplicaPort

INSEPARABLE = "ddp"
"""A collective that cannot continue without one of its members."""


def port_for(collective: str) -> type[LivePort]:
    """No collective: servers sum."""
    if not collective:
        return LivePort
    return NativePort if collective == INSEPARABLE else ReplicaPort
