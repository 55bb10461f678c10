"""The vocabulary between the policy of a cluster and whatever runs the cluster's jobs.

A strategy decides for one job, a policy for all of them: which of the waiting jobs starts, and on which machines. It is
as pure as a strategy. A job is a *gang*: it has a GPU for every worker from its start to its end, or it waits.
"""

from __future__ import annotations

import msgspec


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What one host of the cluster offers to jobs."""

    number: int
    """Of the host, as in ``host:3``."""
    gpus: int
    """0: it has none and can only hold servers."""
    cpu_cores: float | None = None
    """None: no limit."""
    link_bytes_per_s: float | None = None
    """Each way; None: no limit."""


class TaskDemand(msgspec.Struct, frozen=True, kw_only=True):
    """What one task uses while nobody disturbs it, and in turns: an estimate for placements, no limit."""

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
    """How long it would take alone and undisturbed, as far as anybody knows before; None: unknown."""
    user: str = ""
    model: str = ""
    worker: TaskDemand = TaskDemand()
    server: TaskDemand = TaskDemand()


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where the tasks of a job are: the number of a machine for each, by number of the worker or server."""

    workers: tuple[int, ...]
    servers: tuple[int, ...] = ()


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job that has been submitted and has not ended."""

    request: JobRequest
    places: Places | None = None
    """None: it waits."""
    since_s: float
    """When it came to be as it is: submitted, started or preempted."""
    attained_s: float = 0.0
    """Seconds that it has run so far, over all its starts."""
    starts: int = 0

    @property
    def remaining_s(self) -> float | None:
        """Seconds that are left of ``duration_s``, at least 0; None: unknown."""
        duration_s = self.request.duration_s
        return None if duration_s is None else max(0.0, duration_s - self.attained_s)


class StartJob(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Start a waiting job, or go on with one that was preempted: all its workers hold their GPUs from now on."""

    job: str
    places: Places


class PreemptJob(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Take its GPUs from a running job. Its progress is kept, and it waits again."""

    job: str


ClusterCommand = StartJob | PreemptJob
