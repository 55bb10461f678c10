"""The specification that a forked task receives: the whole job, and the places of all tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from runtime.core.layout import Layout
from runtime.live.transport.address import LOOPBACK, Address
from strategies.protocol import NodeId


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a task. By default: this machine, without a host."""

    host: str = ""
    """``host:0``; empty without emulated hosts."""
    namespace_fd: int = -1
    """Descriptor of the host's network, inherited by the agent; -1: the run's network."""
    cgroup_files: tuple[str, ...] = ()
    """Files to which a process writes to enter its control groups."""
    address: str = LOOPBACK
    port: int = 0
    """Port on which a server listens; 0: any free one."""
    known_as: Address | None = None
    """Address at which tasks on other hosts reach a server, if different: a relay that adds latency."""
    side_path: str = ""
    """Path of a server's second address, for auxiliary tasks, outside the emulated network."""
    device: dict[str, float] | None = None
    """Profile of the host's device; None: the cluster's."""


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a task; the agent reads them once from its standard input."""

    run_dir: str
    coordinator: Address
    secret: bytes
    agent: int = 0
    """Which of the job's agents reads this."""
    heartbeat_s: float
    transport: str
    transfer_bits: int = 32
    """Bits of each parameter and gradient element between workers and servers."""
    seed: int
    num_workers: int
    layout: Layout
    """Layout of the start: which task holds which part of the parameters, until a later layout."""
    num_samples: int
    shard_samples: int | None
    num_shards: int
    validation_samples: int
    optimizer: dict[str, Any]
    outer: dict[str, Any] = {}
    """Optimizer of updates by what replicas have moved their own parameters by; empty: there are none."""
    backend: dict[str, Any]
    task: dict[str, Any]
    device: dict[str, float] | None
    devices: list[dict[str, float]] | None = None
    """Profile of every worker's device, where they differ."""
    threads: int = 1
    niceness: dict[str, int] = {}
    """Niceness of tasks by role; missing: 0."""
    supports_sample_weights: bool = False
    """Whether the job has micro-batches with weights."""
    collective: str = ""
    """The collective that sums the gradients of replicas; empty: there are servers."""
    places: dict[str, Place] = {}
    """Places by task, ``worker:0``; a missing task has the default place."""
    gpus: tuple[int, ...] = ()
    """GPUs that workers use in turn; empty: none."""
    mps_pipes: str = ""
    """Directory of the MPS daemon's pipes; empty: there is none."""
    mps_percent: tuple[float, ...] = ()
    """Percent of a GPU's multiprocessors that workers may use, in turn; empty: all."""
    hogs: dict[int, int] = {}
    """Processes that take turns on a GPU when the plan says so, by device."""
    sample_every_s: float | None = None
    """Seconds between two messages of the agent about what its tasks use; None: it sends none."""
    checkpoints: str = ""
    """Directory of the checkpoints; empty: below ``run_dir``."""
    certificate: str = ""
    """Key and certificate with which tasks listen; empty: connections are not encrypted."""
    holds: bool = False
    """Whether workers hold their gradients: then none is certain to come to a server."""

    paces_links: bool = False
    """Whether links are limited at times by pacing what workers and servers send."""
    num_replicas: int = 0
    """Servers that follow the others, for which workers keep what they have computed."""
    sums_meanwhile: bool = False
    """Whether replicas sum while they compute."""
    bound_s: float | None = None
    """Seconds that a replica gives a sum; None: it waits."""

    @property
    def checkpoint_dir(self) -> Path:
        """Where checkpoints are stored and read."""
        return Path(self.checkpoints or f"{self.run_dir}/checkpoints")

    def place(self, role: str, number: int) -> Place:
        """Where a task lives; the default place (this machine, any port) for one that has none of its own."""
        return self.places.get(str(NodeId(role, number)), Place())

    def device_of(self, worker: int) -> dict[str, float] | None:
        """The profile that paces a worker: its own device's, its host's, or the cluster's.

        One that was not there at the start has the device of worker 0.
        """
        if self.devices:
            return self.devices[worker if worker < len(self.devices) else 0]
        return self.place("worker", worker).device or self.device
