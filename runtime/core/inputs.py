"""All inputs from a runtime to the coordinator: one struct each, for :meth:`Coordinator.receive` (pure).

None of them holds its time, since a message may wait until the coordinator is free: the time is an argument of
``receive``. Notifications of the recovery are inputs, too.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from runtime.core.recovery.effects import (
    AuxiliaryJoined,
    AuxiliaryLost,
    Restored,
    RolledBack,
    ServerJoined,
    ServerLost,
    WorkerJoined,
    WorkerLost,
)
from runtime.core.scoring import Products
from strategies.protocol import NodeId, NodeUse, Timings


class Input(msgspec.Struct, frozen=True, gc=False):
    """Base of all inputs."""


class JobStarted(Input, frozen=True):
    """All workers and servers are ready: the job's clock starts now.

    ``incarnations``: of the workers that are connected, by worker; some may have died while the job was starting.
    """

    incarnations: dict[int, int] = {}
    model_bytes: int | None = None
    links: dict[str, float] = {}
    """Limits of links as ``Started`` gives them."""
    aggregators: dict[str, str | None] = {}
    """Hosts of aggregators, by name; None without hosts."""
    step: Literal["", "sgd", "tally"] = ""
    momentum: float = 0.0
    """The optimizer's step and momentum, for replicas, as ``Started`` has them."""
    replicas: dict[int, int] = {}
    """Incarnations of the server's replicas, by number, as of workers."""


class GradientReady(Input, frozen=True):
    """A worker holds a finished, finite gradient of ``num_bytes``, since its ComputeOrder says so (``holds``)."""

    grad_id: int
    worker: int
    timings: Timings
    num_bytes: int
    loss: float | None = None
    sqr_norm: float | None = None


class GradientArrived(Input, frozen=True):
    """All servers hold a gradient, or have refused it because it is not ``finite``."""

    grad_id: int
    worker: int
    timings: Timings
    loss: float | None = None
    sqr_norm: float | None = None
    finite: bool = True
    members: tuple[int, ...] = ()
    """The gradients in a sum, whose workers are done."""
    ends_s: tuple[float, ...] = ()
    """As in ``Grad``: fewer than the order's micro-batches if computing ended early."""


class Replicated(Input, frozen=True):
    """A replica has received a gradient, or a copy of all (``grad_id`` None), and has followed up to ``version``."""

    server: int
    version: int
    grad_id: int | None = None


class TimerFired(Input, frozen=True):
    """The time of a ``Port.wake`` has come."""

    tag: str


class ServerBusy(Input, frozen=True):
    """A server's work since its last report."""

    server: int
    version: int
    updates: int
    busy_s: float
    injected_s: float


class ScorePart(Input, frozen=True):
    """A server has compared its part of a gradient with its part of reference number ``reference``."""

    server: int
    grad_id: int
    reference: int
    part: Products


class NormPart(Input, frozen=True):
    """A server's part of the squared norm that was asked for under ``ticket``; of a replica: all of it."""

    server: int
    ticket: int
    sqr_norm: float


class ReferenceReady(Input, frozen=True):
    """All servers hold reference gradient ``number``."""

    number: int


class WorkerFailed(Input, frozen=True):
    """A Compute ended without a gradient although its worker lives."""

    worker: int
    reason: str
    retryable: bool


class Evaluated(Input, frozen=True):
    """The evaluator has finished one snapshot, or has given up: then there are no ``metrics``."""

    version: int
    asked_s: float
    metrics: dict[str, float]


class Observed(Input, frozen=True):
    """The resource use of tasks and hosts during the last ``period_s`` seconds."""

    period_s: float
    nodes: tuple[NodeUse, ...]


class Operated(Input, frozen=True):
    """An operator lets a worker join, or takes one away, as a plan says.

    A newcomer has the next number, whichever the plan foresaw; a worker that is not there any more cannot leave.
    """

    change: Literal["join", "leave"]
    node: str


class PreemptionOrdered(Input, frozen=True):
    """The cluster takes the job's places: it leaves after its next update, or as it is once ``grace_s`` have passed.

    ``Restored`` follows when it has places again.
    """

    grace_s: float


class Interrupted(Input, frozen=True):
    """The user wants the job to end."""

    reason: str


OfNodes = WorkerLost | WorkerJoined | ServerJoined | ServerLost | Operated
OfRecovery = OfNodes | RolledBack | Restored | AuxiliaryLost | AuxiliaryJoined
OfTasks = (
    GradientReady
    | GradientArrived
    | ServerBusy
    | ScorePart
    | NormPart
    | ReferenceReady
    | Replicated
    | WorkerFailed
    | Evaluated
    | Observed
)
AnyInput = OfTasks | OfRecovery | TimerFired | JobStarted | PreemptionOrdered | Interrupted


def did_not_start(node: NodeId, reason: str) -> WorkerLost | ServerLost:
    """There is no place for a node that was launched."""
    if node.role == "server":
        return ServerLost(node.number, 0, reason, holding=False)
    return WorkerLost(node.number, 0, reason, restarting=False)


__all__ = [
    "AnyInput",
    "AuxiliaryJoined",
    "AuxiliaryLost",
    "Evaluated",
    "GradientArrived",
    "GradientReady",
    "Input",
    "Interrupted",
    "JobStarted",
    "NormPart",
    "Observed",
    "OfRecovery",
    "OfTasks",
    "Operated",
    "PreemptionOrdered",
    "ReferenceReady",
    "Replicated",
    "Restored",
    "RolledBack",
    "ScorePart",
    "ServerBusy",
    "ServerJoined",
    "ServerLost",
    "TimerFired",
    "WorkerFailed",
    "WorkerJoined",
    "WorkerLost",
    "did_not_start",
]
