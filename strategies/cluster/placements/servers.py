"""Common parts of placements: on which machines parameter servers may be, and simple ways to distribute them (pure)."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import Checked, OneOf
from strategies.protocol import JobRequest, Machine, Placement, Places, Room

SERVERS_ON = ("any", "gpu", "cpu")
"""Machines of both kinds, those with GPUs, those without (STAR, section V, has either)."""


@dataclass(frozen=True, kw_only=True)
class GangPlacement(Checked, Placement, ABC):
    """Abstract: a gang's workers get their places first, then its servers.

    Attributes:
        servers_on: machines that may hold servers: ``any``, ``gpu`` (with GPUs), ``cpu`` (without; where fewest are).
    """

    servers_on: Annotated[str, OneOf(*SERVERS_ON)] = "any"

    @abstractmethod
    def workers(self, gpus: int, room: Room) -> list[int] | None:
        """A machine for every worker; so many GPUs are free in all. None: there is no place for the gang."""

    @abstractmethod
    def servers(self, request: JobRequest, workers: Sequence[int], room: Room) -> list[int]:
        """A machine for every server of the request, whose workers are on these machines."""

    @final
    def validate(self, machines: Sequence[Machine]) -> None:
        if not candidates(self.servers_on, machines):
            kind = "has GPUs" if self.servers_on == "gpu" else "is without GPUs"
            raise ValueError(
                f"servers_on={self.servers_on}: no host of this cluster {kind}; add one, or use servers_on=any"
            )

    @final
    def place(self, request: JobRequest, room: Room) -> Places | None:
        workers = self.workers(request.gpus, room) if request.gpus <= room.free_gpus else None
        if workers is None:
            return None
        return Places(workers=tuple(workers), servers=tuple(self.servers(request, workers, room)))


def candidates(servers_on: str, machines: Sequence[Machine]) -> list[int]:
    """The numbers of the machines that may hold servers."""
    wanted = {"any": (False, True), "gpu": (True,), "cpu": (False,)}[servers_on]
    return [machine.number for machine in machines if (machine.gpus > 0) in wanted]


def next_to_workers(servers: int, servers_on: str, workers: Sequence[int], room: Room) -> list[int]:
    """On the machines of the job's workers in turns; if none of these may, where fewest servers are."""
    if not servers:
        return []
    own = sorted(set(workers))
    if servers_on == "cpu":
        own = []  # they have GPUs
    return [own[n % len(own)] for n in range(servers)] if own else on_fewest_of(servers, servers_on, room)


def on_fewest_of(servers: int, servers_on: str, room: Room) -> list[int]:
    """One by one, each where fewest servers are by then, the smaller number of equals."""
    if not servers:
        return []
    order = [(room.servers_on(machine), machine) for machine in candidates(servers_on, room.machines)]
    heapq.heapify(order)
    found = []
    for _ in range(servers):
        count, machine = order[0]
        found.append(machine)
        heapq.heapreplace(order, (count + 1, machine))
    return found
