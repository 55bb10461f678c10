"""On which machines parameter servers may be, and simple ways to distribute them (pure)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from reading.ranges import check_choice
from strategies.protocol import Machine, Room

SERVERS_ON = ("any", "gpu", "cpu")
"""Machines of both kinds, those with GPUs, those without (STAR, section V, has either)."""


def check_servers_on(value: str) -> None:
    """Raise ``ValueError`` unless it is one of ``SERVERS_ON``."""
    check_choice("servers_on", value, *SERVERS_ON)


def check_there_are(servers_on: str, machines: Sequence[Machine]) -> None:
    """Raise ``ValueError`` if there is no machine of the kind."""
    if not candidates(servers_on, machines):
        kind = "has GPUs" if servers_on == "gpu" else "is without GPUs"
        raise ValueError(f"servers_on={servers_on}: no host of this cluster {kind}; add one, or use servers_on=any")


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
