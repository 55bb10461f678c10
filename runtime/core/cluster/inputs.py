"""The reports of a runtime about the jobs of a cluster."""

from __future__ import annotations

import msgspec

from runtime.core.cluster.brain.brain import Asked
from strategies.protocol import JobRequest, NodeId


class JobSubmitted(msgspec.Struct, frozen=True):
    """A job arrives; from now on it waits."""

    request: JobRequest


class JobStarted(msgspec.Struct, frozen=True):
    """The tasks of a job that was started compute from now on; the time before belongs to the start."""

    job: str


class JobEnded(msgspec.Struct, frozen=True):
    """A job is over, however it came about, and its GPUs are free."""

    job: str
    status: str = "done"
    """As a job's own record has it: ``done``, ``failed``, ``stuck``, ``interrupted``."""


class JobGone(msgspec.Struct, frozen=True):
    """A job that was ordered to leave has left, and its GPUs are free. One that ended before is reported as that."""

    job: str
    attained_s: float | None = None
    """Seconds of its duration that are done and kept; None: all that it has run."""


class TaskMoved(msgspec.Struct, frozen=True):
    """The process of a task has left its machine for another, as ``ClusterCoordinator.relocate`` said."""

    job: str
    node: NodeId


class Woke(msgspec.Struct, frozen=True):
    """The time has come for which the port was asked by ``wake``."""


class NodeAsked(msgspec.Struct, frozen=True):
    """The strategy of a job asks for a node more."""

    asked: Asked


class NodeLeft(msgspec.Struct, frozen=True):
    """A node has left its job, or is not wanted any more; also one that was never granted."""

    job: str
    node: NodeId


class CoresReturned(msgspec.Struct, frozen=True):
    """A node has fewer cores from now on, as ``ClusterCoordinator.allot`` has booked."""

    job: str


class BrainLost(msgspec.Struct, frozen=True):
    """The Brain has died, with all that was asked and not answered."""


class BrainBack(msgspec.Struct, frozen=True):
    """A new Brain is there, and continues from the record of grants."""


NodeInput = NodeAsked | NodeLeft | CoresReturned | BrainLost | BrainBack
"""About nodes of jobs that run."""
AnyInput = JobSubmitted | JobStarted | JobEnded | JobGone | TaskMoved | Woke | NodeInput
