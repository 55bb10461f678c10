"""Which port of a live run goes with who sums the gradients. The one place that chooses."""

from __future__ import annotations

from runtime.live.control.port import LivePort
from runtime.live.control.replica_port import NativePort, ReplicaPort

INSEPARABLE = "ddp"
"""A collective that does not go on without one of its members."""


def port_for(collective: str) -> type[LivePort]:
    """Empty: servers sum."""
    if not collective:
        return LivePort
    return NativePort if collective == INSEPARABLE else ReplicaPort
