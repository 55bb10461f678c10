"""The Brain's decisions: which node gets which machine, which one is refused, and which one is taken back (pure).

Jobs that wait come first: no node is granted while a job has not started. Nodes of normal priority come in the order in
which they were asked for, and one without room keeps all later ones waiting, so none starves. Nodes of low priority
(DLRover section 4.2: beyond a job's quota) get what then is left, and the workers among them are taken back, the latest
first, if a job or a node of normal priority has room after that. Servers are not: a server that holds parameters would
start again where it was, as its job's strategy decides where parameters are. A node that waits for ``wait_s`` is
refused, so its job asks again for what it needs by then; one that no machine of the empty cluster could hold is refused
at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import final

import msgspec

from runtime.core.cluster.brain.grants import DIGITS, Grants, Held, Task
from strategies.protocol import JobRequest, NodeId, Placement, Room


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A node that the strategy of a job asks for."""

    job: str
    node: NodeId
    cores: float
    low: bool = False
    not_on: tuple[int, ...] = ()
    """Numbers of machines that it must not be on."""

    @property
    def task(self) -> Task:
        """The node of its job."""
        return Task(self.job, self.node)


class Give(msgspec.Struct, frozen=True):
    """The node is granted, on a machine."""

    asked: Asked
    machine: int


class Refuse(msgspec.Struct, frozen=True):
    """The node does not come."""

    asked: Asked
    reason: str


class TakeBack(msgspec.Struct, frozen=True):
    """The worker of low priority has to leave."""

    task: Task


Decision = Give | Refuse | TakeBack
Fits = Callable[[Room, Grants], bool]
"""Whether something would have room in these books."""


@final
class Brain:
    """The unanswered requests; it decides one thing at a time, by the books as they are then.

    Args:
        wait_s: seconds for which a node may wait.
    """

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s
        self._waiting: dict[Task, tuple[float, Asked]] = {}
        self._leaving: set[Task] = set()

    def ask(self, t: float, asked: Asked) -> None:
        """A node is asked for at ``t``."""
        self._waiting[asked.task] = (t, asked)

    def left(self, task: Task) -> None:
        """A node has left, or is not wanted any more."""
        self._waiting.pop(task, None)
        self._leaving.discard(task)

    def forget(self, job: str) -> None:
        """A job is over."""
        for task in [task for task in (*self._waiting, *self._leaving) if task.job == job]:
            self.left(task)

    @property
    def waits(self) -> bool:
        """Whether a node of normal priority waits."""
        return any(not asked.low for _, asked in self._waiting.values())

    def next_s(self) -> float:
        """When the next node has waited for too long; infinity: none waits."""
        return min((t + self.wait_s for t, _ in self._waiting.values()), default=inf)

    def decide(
        self, t: float, room: Room, grants: Grants, job: JobRequest | None, placement: Callable[[Grants], Placement]
    ) -> Decision | None:
        """The next decision at ``t``; the caller carries it out, and asks again until there is none.

        Args:
            t: seconds of the cluster's clock.
            room: who holds which GPU.
            grants: who holds which cores.
            job: the first of the jobs that wait for their start; None: none does.
            placement: by which it would start if there were only these grants.
        """
        if (impossible := self._impossible(grants)) is not None:
            return impossible
        line = sorted((asked for _, asked in self._waiting.values()), key=lambda asked: asked.low)
        first = line[0] if line and job is None else None
        machine = None if first is None else machine_for(first, room, grants)
        if first is not None and machine is not None:
            del self._waiting[first.task]
            return Give(first, machine)
        late = next((asked for asked_s, asked in self._waiting.values() if t >= asked_s + self.wait_s), None)
        if late is not None:
            why = f"no host had so many{_gpu(late)} left for {self.wait_s:g} s"
            return self._refuse(late, why)
        if job is not None:
            return self._make_room(
                room, grants, lambda there, held: placement(held).place(job, there) is not None, already=True
            )
        if first is None or first.low:
            return None
        return self._make_room(room, grants, lambda there, held: machine_for(first, there, held) is not None)

    def _impossible(self, grants: Grants) -> Refuse | None:
        """A node that not even the empty cluster could hold."""
        empty, none = Room(grants.machines), Grants(grants.machines)
        for _, asked in self._waiting.values():
            if machine_for(asked, empty, none) is None:
                return self._refuse(asked, f"no host has so many{_gpu(asked)}")
        return None

    def _refuse(self, asked: Asked, why: str) -> Refuse:
        del self._waiting[asked.task]
        return Refuse(asked, f"cpu_cores={asked.cores:g}: {why}")

    def _make_room(self, room: Room, grants: Grants, fits: Fits, *, already: bool = False) -> TakeBack | None:
        """The next worker of low priority that has to leave; None: it is enough to wait, or even all are not enough.

        ``already``: what fits now is about to be granted by somebody else.
        """
        gone = [task for task in grants.held if task in self._leaving]
        low = [task for task, held in grants.held.items() if _may_leave(task, held) and task not in self._leaving]
        if not low or (already and fits(room, grants)) or fits(*_without(room, grants, gone)):
            return None
        chosen = list[Task]()
        for task in reversed(low):
            chosen.append(task)
            if fits(*_without(room, grants, [*gone, *chosen])):
                break
        else:
            return None
        for task in list(chosen):  # an earlier one may be enough without it
            if fits(*_without(room, grants, [*gone, *(one for one in chosen if one != task)])):
                chosen.remove(task)
        self._leaving.add(chosen[0])
        return TakeBack(chosen[0])


def _may_leave(task: Task, held: Held) -> bool:
    return held.low and task.node.role == "worker"


def machine_for(asked: Asked, room: Room, grants: Grants) -> int | None:
    """The machine with most cores left that holds the node, the first of equals; a worker needs a free GPU, too."""
    fitting = [
        machine.number
        for machine in room.machines
        if machine.number not in asked.not_on
        and grants.cores_left(machine.number) >= round(asked.cores, DIGITS)
        and (asked.node.role != "worker" or room.free[machine.number])
    ]
    return max(fitting, key=lambda number: (grants.cores_left(number), -number), default=None)


def _gpu(asked: Asked) -> str:
    return " and a GPU" if asked.node.role == "worker" else ""


def _without(room: Room, grants: Grants, tasks: Sequence[Task]) -> tuple[Room, Grants]:
    """The books without these nodes."""
    there, held = room.copy(), grants.without(tasks)
    for job in {task.job for task in tasks}:
        there.resize(job, held.places(job))
    return there, held
