"""Settings of a recovery, where runtimes or jobs differ (pure)."""

from __future__ import annotations

from typing import Literal

import msgspec

Failover = Literal["shards", "whole_shards", "checkpoint"]
"""After the loss of a worker its unapplied samples return, or its whole shards, or all roll back to a checkpoint."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and choices; the defaults suit real processes that rarely fail."""

    failover: Failover = "shards"
    """The cost of a lost worker: its own samples, or all work since the last checkpoint."""
    inseparable: bool = False
    """Whether the loss of a replica ends the run, as with ``DistributedDataParallel``."""
    max_restarts: int | None = None
    """Deaths after which a task is not restarted; None: no limit. Kills by plan and strategy do not count."""
    max_losses: int | None = None
    """Losses of workers and servers after which the next ends the run. Kills by plan count; losses that the strategy or
    the cluster causes, and crowded starts, do not. None: no limit."""
    max_futile: int | None = None
    """Consecutive deaths without useful work after which a task is given up; None: never."""
    max_crowded: int | None = None
    """Consecutive successors of a task that may find too little memory on their device: a killed process's memory is
    freed late. None: any number."""
    crowded_s: float = 0.0
    """Seconds until the next of them starts."""
    num_replicas: int = 0
    """Servers of the start that hold a copy of all parameters: one that follows takes over when a server is lost."""
    replaces_workers: bool = False
    """Whether the strategy launches nodes: then a worker that was out of memory has left, since its next incarnation
    could not use more."""

    # Where the virtual clock decides differently, so that its results remain as they were.
    reads_on_return: bool = False
    """With ``failover=checkpoint`` the servers read the checkpoint when a lost worker is back, and once more if another
    is still away then. Live, they read while it starts: on the virtual clock such a loss takes longer."""
    plan_ends_wait: bool = False
    """A window that opens while a task waits for a place removes it from the scheduler's queue: it starts when the plan
    releases it. Live, it must wait for both, as must a task that moves to a dead host."""
    regroups: bool = False
    """A replica that arrives during an agreement restarts it. Live, it is admitted afterwards."""
