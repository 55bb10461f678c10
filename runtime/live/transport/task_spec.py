"""What a task is told when it is forked: the whole job, and where everybody lives."""

from __future__ import annotations

from typing import Any

import msgspec

from runtime.live.transport.address import LOOPBACK, Address


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a task lives. By default: on this machine, like everybody else."""

    host: str = ""
    """``host:0``; empty without emulated hosts."""
    namespace_fd: int = -1
    """Of the host's network, inherited by the agent; -1: that of the run."""
    cgroup_files: tuple[str, ...] = ()
    """A process enters its groups by writing to these."""
    address: str = LOOPBACK
    port: int = 0
    """That a server listens on; 0: any free one."""
    known_as: Address | None = None
    """Where others reach a server, if not where it listens: a relay that adds latency."""
    side_path: str = ""
    """Of a server's second address, for the evaluator, beside the emulated network."""
    device: dict[str, float] | None = None
    """Profile of the host's device; None: that of the cluster."""


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a task needs to know; the agent reads it once from its standard input."""

    run_dir: str
    coordinator: Address
    secret: bytes
    agent: int = 0
    """Which of the job's agents reads this."""
    heartbeat_s: float
    transport: str
    seed: int
    num_workers: int
    num_servers: int
    num_samples: int
    shard_samples: int | None
    num_shards: int
    validation_samples: int
    optimizer: dict[str, Any]
    backend: dict[str, Any]
    task: dict[str, Any]
    device: dict[str, float] | None
    devices: list[dict[str, float]] | None = None
    """Profile of every worker's device, where they differ."""
    threads: int = 1
    evaluator_niceness: int = 5
    supports_sample_weights: bool = False
    """Whether micro-batches with weights will come."""
    collective: str = ""
    """Who sums the gradients of replicas; empty: there are servers."""
    places: dict[str, Place] = {}
    """By task, ``worker:0``; a task that is missing lives on this machine."""

    def place(self, role: str, number: int) -> Place:
        """Where a task lives."""
        return self.places.get(f"{role}:{number}", Place())

    def device_of(self, worker: int) -> dict[str, float] | None:
        """What paces a worker: its own device, that of its host, or that of the cluster."""
        return self.devices[worker] if self.devices else self.place("worker", worker).device or self.device

    def shortcuts(self, role: str, number: int) -> dict[Address, Address]:
        """For servers on a task's own host: where they listen, by where others reach them."""
        home = self.place(role, number).host
        near = [place for place in self.places.values() if place.host == home and place.known_as is not None]
        return {
            place.known_as: Address(transport="tcp", host=place.address, port=place.port)
            for place in near
            if place.known_as is not None
        }
