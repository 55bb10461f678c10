"""Orders about nodes: one closed union that the coordinator gives and each runtime carries out in one place."""

from __future__ import annotations

import msgspec


class RestartOrder(msgspec.Struct, frozen=True):
    """Kill ``worker:1`` or ``server:0`` and start it elsewhere, not before it was pending for so long.

    The coordinator has voided what the worker had under way. A server goes when the checkpoint that was ordered just
    before is stored; then ``ServerLost`` and ``Restored`` follow.
    """

    node: str
    pending_s: float


class LaunchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Start a node that was not there before; ``WorkerJoined`` or ``ServerJoined`` follows, or its loss.

    None in a limit: the node has no limit.
    """

    node: str
    pending_s: float
    """Seconds until the scheduler has a place for it."""
    cpu_cores: float | None = None
    memory_bytes: int | None = None
    not_on: tuple[str, ...] = ()
    low: bool = False
    """Whether it has low priority, so that a set of jobs may take it back."""


class RetireOrder(msgspec.Struct, frozen=True):
    """End a node for good, or take its request back. The coordinator has booked that already."""

    node: str
    reason: str


class RepartitionOrder(msgspec.Struct, frozen=True):
    """Let these servers read the checkpoint that was ordered just before, in proportion to their shares.

    All are halted until ``Restored`` follows.
    """

    shares: tuple[tuple[str, float], ...]


class SuspendOrder(msgspec.Struct, frozen=True):
    """End all tasks when the checkpoint that was ordered just before is stored; the cluster takes their places.

    All are halted until ``Restored`` follows, with tasks on the job's next places.
    """


class AllocateOrder(msgspec.Struct, frozen=True):
    """Change what a running node may use, as it was booked before; None: unlimited."""

    node: str
    cpu_cores: float | None
    link_bytes_per_s: float | None


NodeOrder = RestartOrder | LaunchOrder | RetireOrder | RepartitionOrder | SuspendOrder | AllocateOrder
