"""Where a job starts whose nodes get cores at once: as the placement of the set says, within what is left (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import final

from runtime.core.cluster.brain.grants import DIGITS, Grants
from strategies.protocol import JobRequest, Machine, Placement, Places, Room

StartCores = Mapping[str, float]
"""Cores of every ``worker`` and every ``server`` of a job when it starts."""


@final
class WithinCores(Placement):
    """The placement of the set, of which machines count as full where a worker's cores are not left.

    Servers stay where the placement puts them, if their cores are left there; else each goes where most cores are left.

    Args:
        inner: the placement of the set.
        start: of the jobs whose nodes get cores; others take none.
        grants: of the jobs that run.
    """

    def __init__(self, inner: Placement, start: Mapping[str, StartCores], grants: Grants) -> None:
        self.inner, self.start, self.grants = inner, start, grants

    def validate(self, machines: Sequence[Machine]) -> None:
        self.inner.validate(machines)

    def given(self, grants: Grants) -> WithinCores:
        """The same placement, if these were the grants."""
        return WithinCores(self.inner, self.start, grants)

    def place(self, request: JobRequest, room: Room) -> Places | None:
        cores = self.start.get(request.job)
        if cores is None:
            return self.inner.place(request, room)
        left = self._left(room)
        fitting = _only(room, [_count(have, cores["worker"]) for have in left])
        places = self.inner.place(request, fitting) if request.gpus <= fitting.free_gpus else None
        if places is None:
            return None
        for machine in places.workers:
            left[machine] -= cores["worker"]
        servers = _servers(places.servers, cores["server"], left)
        return None if servers is None else Places(workers=places.workers, servers=servers)

    def _left(self, room: Room) -> list[float]:
        """Cores of every machine that no job in these books has; a job that is only tried has its own, too."""
        left = [inf if machine.cpu_cores is None else machine.cpu_cores for machine in room.machines]
        granted = set[str]()
        for task, held in self.grants.held.items():
            if task.job in room.held:
                left[held.machine] -= held.cores
                granted.add(task.job)
        for job, (_, places) in room.held.items():
            if job in self.start and job not in granted:
                for role, machines in (("worker", places.workers), ("server", places.servers)):
                    for machine in machines:
                        left[machine] -= self.start[job][role]
        return left


def _count(left: float, cores: float) -> float:
    """How many workers of so many cores fit."""
    return inf if not cores or left == inf else (round(left, DIGITS) + 10**-DIGITS) // cores


def _only(room: Room, workers: Sequence[float]) -> Room:
    """The same books, where no machine has more free GPUs than workers fit on it."""
    fitting = room.copy()
    fitting.free = [int(min(free, most)) for free, most in zip(room.free, workers, strict=True)]
    fitting.free_gpus = sum(fitting.free)
    return fitting


def _servers(wanted: tuple[int, ...], cores: float, left: Sequence[float]) -> tuple[int, ...] | None:
    """A machine for each server; None: there is not room for all."""
    if all(round(left[machine] - count * cores, DIGITS) >= 0 for machine, count in Counter(wanted).items()):
        return wanted
    rest, found = list(left), list[int]()
    for _ in wanted:
        machine = max(range(len(rest)), key=lambda one: (rest[one], -one))
        if round(rest[machine] - cores, DIGITS) < 0:
            return None
        rest[machine] -= cores
        found.append(machine)
    return tuple(found)
