"""STAR's placement of tasks with high load (section IV-D2): servers balanced over the machines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from reading.ranges import Bool
from strategies.cluster.placements.servers import GangPlacement, candidates
from strategies.cluster.placements.workers import on_fewest
from strategies.protocol import JobRequest, Room, TaskDemand

ROUNDING = 1e-9
"""Added to a quotient of demands before it is rounded down to a whole number of tasks."""


@final
@dataclass(frozen=True, kw_only=True)
class BalancedPS(GangPlacement):
    """Workers go to as few machines as possible; each server to the machine that comes first in this order.

    1. it has room for the server by what is planned there (if no machine has, all of them count);
    2. fewest servers are there (``balance``);
    3. it has room for most servers of this kind, by processor cores and bandwidth;
    4. the server interleaves best with the tasks of other jobs there: the gamma of Muri (Zhao et al., SIGCOMM 2022),
       averaged over them (``gamma``);
    5. its number.

    Attributes:
        balance: False: not rule 2 (STAR's variant /N).
        gamma: False: not rule 4 (STAR's variant /Mu).
    """

    balance: Bool = True
    gamma: Bool = True

    def workers(self, gpus: int, room: Room) -> list[int] | None:
        return on_fewest(gpus, room.free)

    def servers(self, request: JobRequest, workers: Sequence[int], room: Room) -> list[int]:
        own_workers, own = Counter(workers), Counter[int]()
        numbers = candidates(self.servers_on, room.machines) if request.servers else []
        for _ in range(request.servers):
            best = min(numbers, key=lambda machine: self._order(machine, request, room, own_workers, own))
            own[best] += 1
        return [machine for machine in sorted(own) for _ in range(own[machine])]

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


def interleaved_s(one: TaskDemand, other: TaskDemand) -> float:
    """Seconds of a round of both, where each computes on the processor while the other is on the GPU."""
    return max(one.cpu_s, other.gpu_s) + max(one.gpu_s, other.cpu_s)


def interleaving_gamma(one: TaskDemand, other: TaskDemand) -> float | None:
    """The part of such a round in which processor and GPU are busy, at most 1; None: neither task has known phases.

    gamma = (c1 + g1 + c2 + g2) / (2 T) with T of :func:`interleaved_s`.
    """
    round_s = interleaved_s(one, other)
    busy_s = one.cpu_s + one.gpu_s + other.cpu_s + other.gpu_s
    return busy_s / (2 * round_s) if round_s else None
