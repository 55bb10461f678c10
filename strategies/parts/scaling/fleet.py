"""The nodes of a job: which are there, what each was given, and the names of those to come (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.parts.scaling.usage import Given
from strategies.protocol import (
    AnyEvent,
    Denied,
    Joined,
    Launch,
    Lost,
    NodeId,
    Restored,
    ServerJoined,
    ServerLost,
    Started,
)

DIGITS = 9
"""Decimals of cores: three tenths of a core are no more than a host with 0.3 has."""


@final
class Fleet:
    """Books of a job's nodes, by what has happened.

    Args:
        worker: the resources of each worker at the start.
        server: the resources of each server at the start.
        unit_cores: cores of the job's machines that a planner counts as one; where a machine has less than one core to
            give, as emulated hosts do, whole numbers of cores mean nothing.
        limit_memory: whether new nodes have a limit of memory; a planner's books have one in any case.

    ``given``: of present nodes and those on their way. ``here``: the present ones.
    """

    def __init__(self, worker: Given, server: Given, unit_cores: float = 1.0, limit_memory: bool = True) -> None:
        self.worker, self.server = worker, server
        self.unit_cores, self.limit_memory = unit_cores, limit_memory
        self.given: dict[NodeId, Given] = {}
        self.here: set[NodeId] = set()
        self.places: dict[NodeId, str] = {}
        """Hosts of nodes, where there are any."""
        self._next: dict[str, int] = {}
        self._present: dict[NodeId, Given] | None = None
        self._before: dict[NodeId, Given] = {}
        """Resources of nodes before their cores changed; a denial follows at once."""

    def start(self, started: Started) -> None:
        workers = [NodeId.worker(number) for number in started.workers]
        servers = [NodeId.server(number) for number in range(started.num_servers)]
        self.given = {**dict.fromkeys(workers, self.worker), **dict.fromkeys(servers, self.server)}
        self.here = set(self.given)
        self.places = {NodeId.parse(node): place for node, place in started.places.items()}
        self._next = {"worker": max(started.workers, default=-1) + 1, "server": len(servers)}
        self._present = None
        self._before = {}

    def observe_event(self, event: AnyEvent) -> None:
        match event:
            case Joined(worker=number, place=place):
                self._come(NodeId.worker(number), place)
            case ServerJoined(server=number, place=place):
                self._come(NodeId.server(number), place)
            case Restored(workers=workers):  # workers that left while parameters were restored are not reported
                self.here = {node for node in self.here if node.role != "worker"}
                self._present = None
                for number in workers:
                    self._come(NodeId.worker(number), self.places.get(NodeId.worker(number)))
            case Lost(worker=number, cause="restarted"):
                self.here.discard(NodeId.worker(number))
                self._present = None
            case Lost(worker=number, restarting=False):
                self.leave(NodeId.worker(number))
            case ServerLost(server=number, holding=False):
                self.leave(NodeId.server(number))
            case Denied(node=name):
                self._deny(NodeId.parse(name))

    def _deny(self, node: NodeId) -> None:
        """A node that was launched does not come; one that is here keeps the cores that it had before."""
        if node not in self.here:
            self.leave(node)
        elif node in self._before:
            self.given[node] = self._before.pop(node)
            self._present = None

    def _come(self, node: NodeId, place: str | None) -> None:
        """An operator's newcomer is taken to have what all have at the start."""
        if place is not None:
            self.places[node] = place
        self.given.setdefault(node, self.worker if node.role == "worker" else self.server)
        self._next[node.role] = max(self._next[node.role], node.number + 1)
        self.here.add(node)
        self._present = None

    def reallocate(self, node: NodeId, cores: int) -> None:
        """A node has so many cores from now on, unless that is denied."""
        self._before[node] = self.given[node]
        self.given[node] = Given(cores=cores, memory_bytes=self.given[node].memory_bytes)
        self._present = None

    def leave(self, node: NodeId) -> None:
        """A node is gone for good, or does not come."""
        self._before.pop(node, None)
        self.given.pop(node, None)
        self.here.discard(node)
        self._present = None

    def real_cores(self, cores: int) -> float:
        """A planner's cores, converted to cores of the job's machines."""
        return cores if self.unit_cores == 1.0 else round(cores * self.unit_cores, DIGITS)

    def nodes(self, role: str) -> list[NodeId]:
        """The present ones of a role, by number."""
        return [node for node in self.present() if node.role == role]

    def present(self) -> dict[NodeId, Given]:
        """The cores and memory of all present nodes, in their order; the same object until that changes."""
        if self._present is None:
            self._present = {node: self.given[node] for node in sorted(self.here)}
            self._totals: dict[str, int] | None = None
        return self._present

    def totals(self) -> dict[str, int]:
        """How many workers and servers are present, and their cores together; computed again when that changes."""
        present = self.present()
        if self._totals is None:
            cores = sum(given.cores for given in present.values())
            roles = [node.role for node in present]
            self._totals = {"workers": roles.count("worker"), "servers": roles.count("server"), "cores": cores}
        return self._totals

    def request(self, role: str, given: Given, not_on: Iterable[str] = ()) -> Launch:
        """The command for a node more; its name is taken from now on."""
        node = NodeId(role, self._next[role])
        self._next[role] += 1
        self.given[node] = given
        return Launch(
            node=str(node),
            cpu_cores=self.real_cores(given.cores),
            memory_bytes=given.memory_bytes if self.limit_memory else None,
            not_on=tuple(not_on),
            priority="low" if given.low_priority else "normal",
        )
