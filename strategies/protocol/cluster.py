"""The vocabulary between the policy of a cluster and whatever runs the cluster's jobs.

A strategy decides for one job, a policy for all of them: which of the waiting jobs starts, and on which machines. It is
as pure as a strategy. A job is a *gang*: it has a GPU for every worker from its start to its end, or it waits.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from strategies.protocol.nodes import NodeId


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that one host of the cluster offers to jobs."""

    number: int
    """The host's number, as in ``host:3``; the machines of a cluster are numbered from 0."""
    gpus: int
    """0: it has none and can only hold servers."""
    cpu_cores: float | None = None
    """None: no limit."""
    link_bytes_per_s: float | None = None
    """Each way; None: no limit."""


class TaskDemand(msgspec.Struct, frozen=True, kw_only=True):
    """The undisturbed use of one task, part of the time: an estimate for placements, not a limit."""

    cpu_cores: float = 0.0
    """On average over an iteration."""
    link_bytes_per_s: float = 0.0
    """The busier direction, on average over an iteration."""
    cpu_s: float = 0.0
    """Processor seconds of an iteration."""
    gpu_s: float = 0.0
    """GPU seconds of an iteration."""


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is submitted."""

    job: str
    """Its name, unique in the cluster."""
    submit_s: float
    """Seconds since the start of the cluster's clock."""
    gpus: int
    """Number of workers, each of which needs a GPU."""
    servers: int = 0
    """Number of parameter servers, which need none."""
    duration_s: float | None = None
    """Estimate, known before, of its time alone and undisturbed; None: unknown."""
    user: str = ""
    model: str = ""
    worker: TaskDemand = TaskDemand()
    server: TaskDemand = TaskDemand()


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where the tasks of a job are: the number of a machine for each, by number of the worker or server."""

    workers: tuple[int, ...]
    servers: tuple[int, ...] = ()

    def of(self, node: NodeId) -> int:
        """The machine of a worker or server; raises ``IndexError`` if there is no such task."""
        return self._of_role(node)[node.number]

    def moved(self, node: NodeId, machine: int) -> Places:
        """The same places with one task on another machine; raises ``IndexError`` if there is no such task."""
        machines = list(self._of_role(node))
        machines[node.number] = machine
        return msgspec.structs.replace(self, **{f"{node.role}s": tuple(machines)})

    def _of_role(self, node: NodeId) -> tuple[int, ...]:
        return {"worker": self.workers, "server": self.servers}.get(node.role, ())


JobPhase = Literal["waiting", "starting", "running", "leaving"]
"""``starting``: it holds its GPUs, and its tasks do not compute yet; ``leaving``: it still holds them, but was ordered
to give them back."""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job that has been submitted and has not ended."""

    request: JobRequest
    number: int
    """It was the n-th to be submitted, from 0: policies break ties by this, never by its name."""
    since_s: float
    """When it came to be in its phase."""
    phase: JobPhase = "waiting"
    places: Places | None = None
    """None: it waits."""
    attained_s: float = 0.0
    """Seconds for which it had run, over all its starts, when it came to be in its phase."""
    starts: int = 0

    def attained_at(self, t: float) -> float:
        """Seconds for which it has run at ``t``, over all its starts."""
        return self.attained_s + t - self.since_s if self.phase == "running" else self.attained_s

    def remaining_at(self, t: float) -> float | None:
        """Seconds that are left of ``duration_s`` at ``t``, at least 0; None: unknown."""
        duration_s = self.request.duration_s
        return None if duration_s is None else max(0.0, duration_s - self.attained_at(t))


class StartJob(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Start a waiting job, or continue one that was preempted: all its workers hold their GPUs from now on."""

    job: str
    places: Places


class PreemptJob(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Take its GPUs from a job. Its progress is kept; it waits again when they are free."""

    job: str


ClusterCommand = StartJob | PreemptJob
