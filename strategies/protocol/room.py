"""The books of a cluster: which GPUs are free, and which tasks are planned on which machine (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import msgspec

from strategies.protocol.cluster import JobRequest, Machine, Places, TaskDemand
from strategies.protocol.nodes import NodeId
from strategies.protocol.values import ProtocolError


class Tenant(NamedTuple):
    """Tasks of one job on one machine, all of one role."""

    job: str
    role: str
    """``worker`` or ``server``."""
    tasks: int
    demand: TaskDemand


class Room:
    """Free and planned resources. A policy gets a copy, in which it may take and release places to try them.

    Every take keeps the laws: a gang is whole, and no GPU is held twice. Read the attributes, change by methods only.

    Args:
        machines: numbered from 0, in this order; raises ``ValueError`` for others.
    """

    __slots__ = ("free", "free_gpus", "held", "machines", "tenants", "total_gpus")

    def __init__(self, machines: Sequence[Machine]) -> None:
        for place, machine in enumerate(machines):
            if machine.number != place:
                raise ValueError(f"machines: number {machine.number} comes as number {place}; count from 0")
        self.machines = tuple(machines)
        self.total_gpus = sum(machine.gpus for machine in machines)
        self.free_gpus = self.total_gpus
        self.free = [machine.gpus for machine in machines]
        """Free GPUs by machine."""
        self.tenants: list[tuple[Tenant, ...]] = [()] * len(self.machines)
        """Tasks on each machine, in the order of their placement."""
        self.held: dict[str, tuple[JobRequest, Places]] = {}
        """The jobs that hold GPUs."""

    def copy(self) -> Self:
        """One that can be changed without changing this one."""
        other = object.__new__(type(self))
        other.machines, other.total_gpus, other.free_gpus = self.machines, self.total_gpus, self.free_gpus
        other.free, other.tenants, other.held = self.free.copy(), self.tenants.copy(), self.held.copy()
        return other

    def take(self, request: JobRequest, places: Places) -> None:
        """The job's tasks are on these machines from now on; raises :class:`ProtocolError` if they cannot be."""
        workers, servers = _counts(places.workers), _counts(places.servers)
        if problem := self._problem(request, places, workers):
            raise ProtocolError(f"job {request.job}: {problem}")
        self.held[request.job] = (request, places)
        self.free_gpus -= request.gpus
        for machine, count in workers.items():
            self.free[machine] -= count
            self.tenants[machine] += (Tenant(request.job, "worker", count, request.worker),)
        for machine, count in servers.items():
            self.tenants[machine] += (Tenant(request.job, "server", count, request.server),)

    def release(self, job: str) -> None:
        """The job's tasks are nowhere any more; raises :class:`ProtocolError` if they were not anywhere."""
        if job not in self.held:
            raise ProtocolError(f"job {job}: holds nothing that it could give back")
        request, places = self.held.pop(job)
        self.free_gpus += request.gpus
        for machine in places.workers:
            self.free[machine] += 1
        for machine in {*places.workers, *places.servers}:
            self.tenants[machine] = tuple(one for one in self.tenants[machine] if one.job != job)

    def move(self, job: str, node: NodeId, machine: int) -> Places:
        """One worker or server of the job is on another machine from now on; returns the job's places.

        Raises :class:`ProtocolError` if the job holds nothing, has no such task, or the machine no free GPU for it.
        """
        if job not in self.held:
            raise ProtocolError(f"job {job}: holds nothing that could move")
        request, places = self.held[job]
        try:
            moved = places.moved(node, machine)
        except IndexError:
            raise ProtocolError(f"job {job}: has no {node} that could move") from None
        if not 0 <= machine < len(self.machines) or (node.role == "worker" and not self.free[machine]):
            raise ProtocolError(f"job {job}: {node} cannot move to machine {machine}, where it has no place")
        self.release(job)
        self.take(request, moved)
        return moved

    def resize(self, job: str, places: Places) -> JobRequest:
        """The job has these workers and servers from now on; returns its request with these numbers of tasks.

        Raises :class:`ProtocolError` if the job holds nothing, or a machine has no free GPU for a worker.
        """
        if job not in self.held:
            raise ProtocolError(f"job {job}: holds nothing that could grow or shrink")
        before, was = self.held[job]
        request = msgspec.structs.replace(before, gpus=len(places.workers), servers=len(places.servers))
        self.release(job)
        try:
            self.take(request, places)
        except ProtocolError:
            self.take(before, was)
            raise
        return request

    def servers_on(self, machine: int) -> int:
        """Number of parameter servers there."""
        return sum(one.tasks for one in self.tenants[machine] if one.role == "server")

    def planned_cores(self, machine: int) -> float:
        """Processor cores that its tasks are expected to use together."""
        return sum(one.tasks * one.demand.cpu_cores for one in self.tenants[machine])

    def planned_bytes_per_s(self, machine: int) -> float:
        """Bandwidth that its tasks are expected to use together, in the busier direction of each."""
        return sum(one.tasks * one.demand.link_bytes_per_s for one in self.tenants[machine])

    def _problem(self, request: JobRequest, places: Places, workers: Mapping[int, int]) -> str:
        if request.job in self.held:
            return "holds its GPUs already"
        for role, wanted, found in (
            ("workers", request.gpus, places.workers),
            ("servers", request.servers, places.servers),
        ):
            if len(found) != wanted:
                return f"has {wanted} {role}, and {len(found)} of them have a place: a gang is whole or waits"
        for machine in (*places.workers, *places.servers):
            if not 0 <= machine < len(self.machines):
                return f"there is no machine {machine}"
        for machine, count in workers.items():
            if count > self.free[machine]:
                return f"{count} workers on machine {machine}, which has {self.free[machine]} GPUs free"
        return ""


def _counts(machines: Sequence[int]) -> dict[int, int]:
    """How often each number occurs; ``collections.Counter`` takes several times as long for so few."""
    found: dict[int, int] = {}
    for machine in machines:
        found[machine] = found.get(machine, 0) + 1
    return found
