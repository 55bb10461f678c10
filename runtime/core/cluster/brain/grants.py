"""The record of grants: the cores that nodes of jobs hold on the machines of a cluster (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum, inf
from typing import NamedTuple

import msgspec

from strategies.protocol import Machine, NodeId, Places, ProtocolError

DIGITS = 9
"""Decimals of cores: three tenths of a core are no more than a machine with 0.3 has left."""


class Task(NamedTuple):
    """One node of one job."""

    job: str
    node: NodeId


class Held(msgspec.Struct, frozen=True):
    """The cores of a node, and the number of its machine; one of low priority may be taken back."""

    machine: int
    cores: float
    low: bool = False


class Grants:
    """Cores of every node of the jobs whose strategies ask for nodes; no machine gives more than it has."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = tuple(machines)
        self.held: dict[Task, Held] = {}
        """In the order in which they were granted."""
        self._cores: list[dict[Task, float]] = [{} for _ in self.machines]

    def without(self, tasks: Iterable[Task]) -> Grants:
        """The record as it would be if these had left."""
        gone, other = set(tasks), Grants(self.machines)
        for task, held in self.held.items():
            if task not in gone:
                other.give(task, held)
        return other

    def cores_left(self, machine: int) -> float:
        """Cores of a machine that nobody holds; infinite without a limit."""
        own = self.machines[machine].cpu_cores
        return inf if own is None else round(own - fsum(self._cores[machine].values()), DIGITS)

    def give(self, task: Task, held: Held) -> None:
        """A node holds this from now on; raises :class:`ProtocolError` if it holds something or that is too much."""
        if task in self.held:
            raise ProtocolError(f"job {task.job}: {task.node} holds its cores already")
        if round(held.cores, DIGITS) > self.cores_left(held.machine):
            raise ProtocolError(
                f"job {task.job}: {task.node} would get {held.cores:g} cores of machine {held.machine}, which has "
                f"{self.cores_left(held.machine):g} left"
            )
        self.held[task] = held
        self._cores[held.machine][task] = held.cores

    def take(self, task: Task) -> Held:
        """A node has left, and its cores are free; raises :class:`ProtocolError` if it held none."""
        if task not in self.held:
            raise ProtocolError(f"job {task.job}: {task.node} holds nothing that it could give back")
        held = self.held.pop(task)
        del self._cores[held.machine][task]
        return held

    def change(self, task: Task, cores: float) -> None:
        """A node holds so many cores of its machine from now on; raises :class:`ProtocolError` likewise."""
        held = self.take(task)
        try:
            self.give(task, msgspec.structs.replace(held, cores=cores))
        except ProtocolError:
            self.give(task, held)
            raise

    def of(self, job: str) -> dict[NodeId, Held]:
        """The nodes of a job, by role and number."""
        return {task.node: self.held[task] for task in sorted(task for task in self.held if task.job == job)}

    def places(self, job: str) -> Places:
        """The machines of a job's nodes, each role in the order of their numbers."""
        nodes = self.of(job).items()
        workers, servers = (
            tuple(held.machine for node, held in nodes if node.role == role) for role in ("worker", "server")
        )
        return Places(workers=workers, servers=servers)
