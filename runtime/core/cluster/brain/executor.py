"""Carries the Brain's decisions out: keeps the record of grants, orders the runtime, and survives the Brain (pure).

It writes these notes besides the notes of :mod:`runtime.core.cluster.coordinator`; ``workers`` and ``servers`` are the
numbers of the machines of all nodes of the job from then on:

- ``Granted`` (``job``, ``node``, ``host``, ``cores``, ``low``, ``workers``, ``servers``): the node may start there;
- ``Denied`` (``job``, ``node``, ``reason``): it does not come;
- TakenBack (``job``, ``node``): it was ordered to leave, and holds its cores until it is ``Returned``;
- ``Returned`` (``job``, ``node``, ``workers``, ``servers``): it has left, and its cores are free;
- Allotted (``job``, ``node``, ``cores``): it has so many cores of its machine from now on;
- ``BrainLost``, ``BrainBack``: nothing is decided in between, and jobs go on with what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Protocol, assert_never, final

import msgspec

from runtime.core.cluster.brain.brain import Asked, Brain, Give, Refuse, TakeBack
from runtime.core.cluster.brain.grants import DIGITS, Grants, Held, Task
from runtime.core.cluster.brain.placing import StartCores, WithinCores
from runtime.core.cluster.inputs import BrainBack, BrainLost, CoresReturned, NodeAsked, NodeInput, NodeLeft
from runtime.core.cluster.port import ClusterNote
from runtime.core.desk import OnHost
from strategies.protocol import JobRequest, NodeId, Placement, Places, Room


class NodePort(Protocol):
    """The runtime, as far as it starts and ends nodes of jobs that run. Each method may report at once."""

    def grant(self, task: Task, machine: int) -> None:
        """Start the node there; ``NodeLeft`` follows when it has left, or at once if it is not wanted any more."""

    def refuse(self, task: Task, reason: str) -> None:
        """Tell the job that the node does not come."""

    def take_back(self, task: Task) -> None:
        """End the node; ``NodeLeft`` follows."""


class Elasticity(msgspec.Struct, frozen=True, kw_only=True):
    """How nodes come to the jobs of a set while they run."""

    start: Mapping[str, StartCores]
    """The jobs whose strategies ask for nodes, with the cores of their first ones."""
    port: NodePort
    wait_s: float
    """Seconds for which a node may wait."""


@final
class Executor:
    """One for a set of jobs.

    Args:
        about: the jobs, and the runtime that carries orders out.
        room: who holds which GPU.
        placement: of the set.
        note: writes the record.
        resized: called with a job's name, its request of its new size, and its places.
    """

    def __init__(
        self,
        about: Elasticity,
        room: Room,
        placement: Placement,
        note: ClusterNote,
        resized: Callable[[str, JobRequest, Places], None],
    ) -> None:
        self.about, self.room, self.note, self._resized = about, room, note, resized
        self.grants = Grants(room.machines)
        self.placement = WithinCores(placement, about.start, self.grants)
        self.brain: Brain | None = Brain(about.wait_s)
        self._unanswered: dict[Task, Asked] = {}
        """Requests that jobs wait for: they ask a new Brain again."""

    # ---- what happens ------------------------------------------------------------------------------------------------

    def started(self, request: JobRequest, places: Places) -> dict[str, StartCores]:
        """A job starts there; returns what its note says of its cores."""
        start = self.about.start.get(request.job)
        if start is None:
            return {}
        for role, machines in (("worker", places.workers), ("server", places.servers)):
            for number, machine in enumerate(machines):
                self.grants.give(Task(request.job, NodeId(role, number)), Held(machine, start[role]))
        return {"cores": start}

    def ended(self, job: str) -> None:
        """A job is over: all that it held is free."""
        for node in self.grants.of(job):
            self.grants.take(Task(job, node))
        self._unanswered = {task: asked for task, asked in self._unanswered.items() if task.job != job}
        if self.brain is not None:
            self.brain.forget(job)

    def book(self, t: float, given: NodeInput) -> None:
        """Book a report about nodes; one about a job that has ended says nothing new."""
        match given:
            case NodeAsked(asked=asked):
                if asked.job in self.room.held:
                    self._unanswered[asked.task] = asked
                    if self.brain is not None:
                        self.brain.ask(t, asked)
            case NodeLeft(job=job, node=node):
                self._left(t, Task(job, node))
            case CoresReturned():
                pass
            case BrainLost():
                self.brain = None
                self.note(t, "BrainLost")
            case BrainBack():
                self.brain = Brain(self.about.wait_s)
                for asked in self._unanswered.values():
                    self.brain.ask(t, asked)
                self.note(t, "BrainBack")
            case _:
                assert_never(given)

    def _left(self, t: float, task: Task) -> None:
        self._unanswered.pop(task, None)
        if self.brain is not None:
            self.brain.left(task)
        if task in self.grants.held:
            self.grants.take(task)
            places = self._resize(task.job)
            about = {"workers": places.workers, "servers": places.servers}
            self.note(t, "Returned", job=task.job, node=str(task.node), **about)

    def allot(self, t: float, task: Task, cores: float, reserve: OnHost) -> str | None:
        """A node is to have so many cores of its machine from now on; returns why not, None if it has them.

        More than before only while the Brain is there and no job or node waits for its turn. ``reserve``: see
        :meth:`runtime.core.desk.Desk.allot`.
        """
        held = self.grants.held.get(task)
        if held is None:
            return "has left"
        if cores == held.cores:
            return reserve()
        if cores > held.cores:
            if self.brain is None:
                return "the Brain is lost, and nobody grants cores"
            if self.brain.waits:
                return f"cpu_cores={cores:g}: other nodes wait for cores"
            if cores > round(self.grants.cores_left(held.machine) + held.cores, DIGITS):
                return f"cpu_cores={cores:g}: host:{held.machine} has not so many left"
        if (refused := reserve()) is not None:
            return refused
        self.grants.change(task, cores)
        self.note(t, "Allotted", job=task.job, node=str(task.node), cores=cores)
        return None

    # ---- what is decided ---------------------------------------------------------------------------------------------

    def decide(self, t: float, waiting: JobRequest | None) -> None:
        """Carry out what the Brain decides, until there is nothing more; ``waiting``: the first job without a place."""
        while self.brain is not None:
            match self.brain.decide(t, self.room, self.grants, waiting, self.placement.given):
                case Give(asked, machine):
                    self._give(t, asked, machine)
                case Refuse(asked, reason):
                    del self._unanswered[asked.task]
                    self.note(t, "Denied", job=asked.job, node=str(asked.node), reason=reason)
                    self.about.port.refuse(asked.task, reason)
                case TakeBack(task):
                    self.note(t, "TakenBack", job=task.job, node=str(task.node))
                    self.about.port.take_back(task)
                case None:
                    return

    def _give(self, t: float, asked: Asked, machine: int) -> None:
        del self._unanswered[asked.task]
        self.grants.give(asked.task, Held(machine, asked.cores, asked.low))
        places = self._resize(asked.job)
        about = {"host": machine, "cores": asked.cores, "low": asked.low}
        hosts = {"workers": places.workers, "servers": places.servers}
        self.note(t, "Granted", job=asked.job, node=str(asked.node), **about, **hosts)
        self.about.port.grant(asked.task, machine)

    def _resize(self, job: str) -> Places:
        places = self.grants.places(job)
        self._resized(job, self.room.resize(job, places), places)
        return places

    def next_s(self) -> float:
        """When the next node has waited for too long; infinity: nothing is to be decided."""
        return inf if self.brain is None else self.brain.next_s()
