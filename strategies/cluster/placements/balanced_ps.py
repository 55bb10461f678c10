"""STAR's placement of tasks with high load (section IV-D2): servers balanced over the machines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from strategies.cluster.gamma import interleaving_gamma
from strategies.cluster.placements.servers import candidates, check_servers_on, check_there_are
from strategies.cluster.placements.workers import on_fewest
from strategies.protocol import JobRequest, Machine, Placement, Places, Room, TaskDemand

ROUNDING = 1e-9
"""What is added before a quotient of demands is cut to a whole number of tasks."""


@final
@dataclass(frozen=True, kw_only=True)
class BalancedPS(Placement):
    """Workers go to as few machines as possible; each server to the machine that comes first in this order.

    1. it has room for the server by what is planned there (if no machine has, all of them count);
    2. fewest servers are there (``balance``);
    3. it has room for most servers of this kind, by processor cores and bandwidth;
    4. the server interleaves best with the tasks of other jobs there: Muri's gamma, averaged over them (``gamma``);
    5. its number.

    Attributes:
        balance: False: not rule 2 (STAR's variant /N).
        gamma: False: not rule 4 (STAR's variant /Mu).
        servers_on: see ``FirstFit``.
    """

    balance: bool = True
    gamma: bool = True
    servers_on: str = "any"

    def __post_init__(self) -> None:
        for name in ("balance", "gamma"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}={getattr(self, name)}: must be true or false")
        check_servers_on(self.servers_on)

    def validate(self, machines: Sequence[Machine]) -> None:
        check_there_are(self.servers_on, machines)

    def place(self, request: JobRequest, room: Room) -> Places | None:
        if request.gpus > room.free_gpus:
            return None
        workers = on_fewest(request.gpus, room.free)
        assert workers is not None
        own_workers, own = Counter(workers), Counter[int]()
        numbers = candidates(self.servers_on, room.machines) if request.servers else []
        for _ in range(request.servers):
            best = min(numbers, key=lambda machine: self._order(machine, request, room, own_workers, own))
            own[best] += 1
        servers = [machine for machine in sorted(own) for _ in range(own[machine])]
        return Places(workers=tuple(workers), servers=tuple(servers))

    def _order(
        self, machine: int, request: JobRequest, room: Room, own_workers: Counter[int], own: Counter[int]
    ) -> tuple[float, ...]:
        """The sort key of a machine; ``own``: the job's tasks that have got their places there."""
        planned = [(own_workers[machine], request.worker), (own[machine], request.server)]
        space = room_for(request.server, machine, room, planned)
        count = room.servers_on(machine) + own[machine] if self.balance else 0
        fits = mean_gamma(request.server, machine, room) if self.gamma else 1.0
        return (space < 1, count, -space, -fits, machine)


def room_for(task: TaskDemand, machine: int, room: Room, planned: Sequence[tuple[int, TaskDemand]] = ()) -> float:
    """How many more tasks like this one the machine could hold, given (number, demand) of others; perhaps infinite."""
    about = room.machines[machine]
    cores = room.planned_cores(machine) + sum(count * one.cpu_cores for count, one in planned)
    rate = room.planned_bytes_per_s(machine) + sum(count * one.link_bytes_per_s for count, one in planned)
    quotients = [
        max(0.0, capacity - used) / demand
        for capacity, used, demand in (
            (about.cpu_cores, cores, task.cpu_cores),
            (about.link_bytes_per_s, rate, task.link_bytes_per_s),
        )
        if capacity is not None and demand > 0
    ]
    return math.floor(min(quotients) + ROUNDING) if quotients else math.inf


def mean_gamma(task: TaskDemand, machine: int, room: Room) -> float:
    """Gamma with the tasks there, averaged over them; 1 where there are none, or none with known phases."""
    total, count = 0.0, 0
    for tenant in room.tenants[machine]:
        gamma = interleaving_gamma(task, tenant.demand)
        if gamma is not None:
            total, count = total + tenant.tasks * gamma, count + tenant.tasks
    return total / count if count else 1.0
