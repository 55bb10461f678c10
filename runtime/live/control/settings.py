"""Settings of processes and of their supervisor."""

from __future__ import annotations

from functools import partial

import msgspec

from runtime.api import RunSpec
from runtime.backends.devices.choice import CUDA
from runtime.core.job import Job
from runtime.core.recovery.rules import Failover
from runtime.live.transport.auxiliaries import auxiliaries_of
from strategies.protocol import Launch

INSEPARABLE = "ddp"
"""A collective that cannot continue without one of its members."""

BASE_S, ON_HOSTS_S = 60.0, 120.0
"""Seconds within which all tasks must start; emulated hosts have little processor time."""
COLD_S = 30.0
"""Additional seconds for each cold start: an import of TensorFlow is about 4 s of work, and all share the cores."""

LONGEST_S = 300.0
"""Largest deadline. ``max_time_s`` counts from the job's start, so both together bound a run."""


class Processes(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of processes from ``cluster=local`` and ``cluster=hosts``; see ``conf/cluster/local.yaml``."""

    port: int
    heartbeat_s: float
    lease_s: float
    iteration_deadline_s: float
    start_deadline_s: float | None
    max_restarts: int | None
    telemetry_every_s: float | None
    niceness: dict[str, int]
    """Niceness of tasks by role."""
    device: dict[str, float] | None
    devices: list[dict[str, float]] | None
    """The device of every worker, if they differ."""
    gpus: tuple[int, ...] = ()
    """GPUs that workers use in turn; empty: none."""
    mps_pipes: str = ""
    """Directory of the MPS daemon's pipes; empty: there is none."""
    mps_percent: tuple[float, ...] = ()
    """Percent of a GPU that workers may use, in turn; empty: all."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of a job, and deadlines in seconds; see ``conf/cluster/local.yaml``."""

    num_workers: int
    num_servers: int
    """0: the workers are replicas."""
    shares: tuple[float, ...] = ()
    """Of the parameters, by server; empty: the same for all."""
    heartbeat_s: float
    lease_s: float
    start_deadline_s: float
    restart_deadline_s: float
    """Deadline of a task that starts alone, while the job is running."""
    iteration_deadline_s: float
    max_restarts: int | None
    failover: Failover = "shards"
    max_losses: int | None = None
    starts_silently: bool = False
    """Whether a task owes no heartbeat before it is built: the driver of a GPU holds the interpreter while it starts,
    for seconds where many processes start at once."""
    inseparable: bool = False
    """Whether the loss of a worker ends the run (``topology.collective=ddp``)."""
    replaces_workers: bool = False
    """Whether the strategy launches nodes, and so replaces a worker that was out of memory."""
    scores: bool = False
    """Whether gradients are scored, so that there are tasks that only scores need."""
    num_aggregators: int = 0
    """Tasks that sum gradients on their way to the servers."""
    num_replicas: int = 0
    """Servers that follow the others."""


def start_deadline_s(asked_s: float | None, *, on_hosts: bool, num_cold: int) -> float:
    """``runtime.start_deadline_s``; None: a suitable one, with ``num_cold`` simultaneous cold starts."""
    suits_s = (ON_HOSTS_S if on_hosts else BASE_S) + COLD_S * num_cold
    return asked_s if asked_s is not None else min(suits_s, LONGEST_S)


def settings_of(asked: Processes, spec: RunSpec, *, on_hosts: bool) -> Settings:
    """The supervisor's settings for a job; the job determines the settings that are not given."""
    job, cold = spec.job, int(not spec.backend.fork_safe)
    deadline_s = partial(start_deadline_s, asked.start_deadline_s, on_hosts=on_hosts)
    return Settings(
        num_workers=job.num_workers,
        num_servers=job.num_servers,
        shares=job.shares_of(job.num_servers),
        heartbeat_s=asked.heartbeat_s,
        lease_s=asked.lease_s,
        start_deadline_s=deadline_s(num_cold=cold * num_computing(job)),
        restart_deadline_s=deadline_s(num_cold=cold),
        iteration_deadline_s=asked.iteration_deadline_s,
        max_restarts=asked.max_restarts,
        failover=job.failover,
        max_losses=job.max_losses,
        starts_silently=spec.backend_spec.get("device") == CUDA,
        inseparable=spec.collective == INSEPARABLE,
        replaces_workers=Launch in spec.strategy.needs,
        scores=job.validation_samples > 0,
        num_aggregators=spec.strategy.aggregators,
        num_replicas=job.num_replicas,
    )


def num_computing(job: Job) -> int:
    """Number of processes that use the framework: workers and auxiliary tasks."""
    return job.num_workers + len(auxiliaries_of(scores=bool(job.validation_samples)))
