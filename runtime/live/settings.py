"""What the supervisor goes by."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Deadlines in seconds; see ``conf/cluster/local.yaml``."""

    heartbeat_s: float
    lease_s: float
    start_deadline_s: float
    iteration_deadline_s: float
    max_restarts: int | None
    failover: str = "shards"
    scores: bool = False
    """Whether gradients are scored, so that there is a scorer."""
