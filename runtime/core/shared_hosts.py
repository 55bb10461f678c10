"""The books of the shares that jobs on the same hosts were granted and have left to each other (pure).

A policy of prevention decides (:mod:`strategies.protocol.sharing`); these books hold its answers until a job gives back
or ends, and refuse one that gives away more than a host has. So at any time the shares in force on a host, granted
ones and limits, sum to its capacity at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import final

import msgspec

from strategies.protocol import RESOURCES, Grant, HostRoom, ProtocolError, Resource, Share

Task = tuple[str, str]
"""(job, node)."""
ROUNDING = 1e-9
"""Part of a host's capacity by which a sum may exceed it."""


class Held(msgspec.Struct, frozen=True):
    """One share in force: a task was granted it, or left with it."""

    host: str
    share: Share
    own: bool
    """Whether the task's own job has asked for it; else it is a limit."""


@final
class SharedHosts:
    """Reservations of jobs, each with all shares that it has changed, in the order in which they were granted."""

    def __init__(self, rooms: tuple[HostRoom, ...]) -> None:
        self.rooms = {room.host: room for room in rooms}
        self._reservations: dict[str, dict[Task, Held]] = {}

    def grant(self, job: str, grant: Grant, host_of: Mapping[Task, str]) -> None:
        """Book what a job is granted, instead of what it had; raises :class:`ProtocolError` if that is too much."""
        before = {name: dict(held) for name, held in self._reservations.items()}
        self.release(job)
        self._reservations[job] = {
            task: Held(host_of[task], share, own=task[0] == job) for task, share in grant.shares.items()
        }
        for host, resource, total, capacity in self.totals():
            if total > capacity * (1 + ROUNDING):
                self._reservations = before
                raise ProtocolError(
                    f"the policy of prevention grants {total:g} {resource} of {host}, which has {capacity:g}"
                )

    def release(self, job: str) -> None:
        """A job gives back what it was granted.

        Those who left it something have it again, unless another reservation has come in between that counts on it:
        then their limits last as long as that one.
        """
        gone = self._reservations.pop(job, {})
        limits = {task: held for task, held in gone.items() if not held.own}
        for host, resource, total, capacity in self.totals():
            if total > capacity * (1 + ROUNDING):
                self._inherit(host, resource, limits)

    def _inherit(self, host: str, resource: Resource, limits: Mapping[Task, Held]) -> None:
        heir = next(
            name
            for name in reversed(self._reservations)
            if any(held.host == host for held in self._reservations[name].values())
        )
        for task, held in limits.items():
            amount = getattr(held.share, resource)
            if held.host == host and amount is not None and task[0] != heir:
                own = self._reservations[heir].get(task, Held(host, Share(node=task[1]), own=False))
                present = getattr(own.share, resource)
                least = amount if present is None else min(amount, present)
                share = msgspec.structs.replace(own.share, **{resource: least})
                self._reservations[heir][task] = msgspec.structs.replace(own, share=share)

    def forget(self, job: str, node: str | None = None) -> None:
        """A job is over, or one of its tasks has left: their shares of hosts are free."""
        if node is None:
            self.release(job)
        for held in self._reservations.values():
            for task in [task for task in held if task[0] == job and node in (None, task[1])]:
                del held[task]

    # ---- what is in force --------------------------------------------------------------------------------------------

    def tasks(self) -> set[Task]:
        """Everybody who holds or is left a share."""
        return {task for held in self._reservations.values() for task in held}

    def host_of(self, task: Task) -> str | None:
        """The host on which a task holds its share; None: it holds none."""
        return next((held[task].host for held in self._reservations.values() if task in held), None)

    def limit_of(self, task: Task) -> Share:
        """Return a task's limit for others' sake; None for a resource without a limit."""
        found = [held[task].share for held in self._reservations.values() if task in held and not held[task].own]
        return Share(node=task[1], **{resource: _least(found, resource) for resource in RESOURCES})

    def share_of(self, task: Task) -> Share:
        """Return a task's share: its grant, or less if others were granted some of that."""
        found = [held[task].share for held in self._reservations.values() if task in held]
        return Share(node=task[1], **{resource: _least(found, resource) for resource in RESOURCES})

    def granted_to(self, job: str) -> tuple[Share, ...]:
        """Return the grants of a job's own tasks."""
        return tuple(self.share_of(task) for task, held in self._reservations.get(job, {}).items() if held.own)

    def holds(self, job: str) -> bool:
        """Whether a job has a reservation."""
        return job in self._reservations

    def totals(self) -> Iterator[tuple[str, Resource, float, float]]:
        """(host, resource, sum of the shares in force, capacity) of everything with a capacity."""
        tasks = {task: (self.host_of(task), self.share_of(task)) for task in self.tasks()}
        for room in self.rooms.values():
            for resource in RESOURCES:
                shares = [getattr(share, resource) for host, share in tasks.values() if host == room.host]
                capacity = getattr(room, resource)
                if capacity is not None:
                    yield room.host, resource, math.fsum(share for share in shares if share is not None), capacity


def _least(shares: list[Share], resource: Resource) -> float | None:
    return min((amount for share in shares if (amount := getattr(share, resource)) is not None), default=None)
