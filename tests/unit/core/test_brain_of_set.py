"""The Brain over the jobs of a set: whatever comes, no machine gives more than it has, and whoever waits is answered.

A model that knows nothing but the notes of the record looks at the books after every step.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.core.cluster.brain.brain import Asked
from runtime.core.cluster.brain.executor import Elasticity
from runtime.core.cluster.brain.grants import Grants, Held, Task
from runtime.core.cluster.brain.placing import WithinCores
from runtime.core.cluster.coordinator import ClusterCoordinator
from runtime.core.cluster.inputs import (
    AnyInput,
    BrainBack,
    BrainLost,
    CoresReturned,
    JobEnded,
    JobStarted,
    JobSubmitted,
    NodeAsked,
    NodeLeft,
    Woke,
)
from strategies.cluster.placements.first_fit import FirstFit
from strategies.cluster.policies.fifo import Fifo
from strategies.protocol import JobRequest, JobState, Machine, NodeId, Places, ProtocolError, Room
from tests.support.granted_nodes import Nodes, after

MACHINES = (
    Machine(number=0, gpus=2, cpu_cores=4.0),
    Machine(number=1, gpus=1, cpu_cores=6.0),
    Machine(number=2, gpus=0, cpu_cores=3.0),
)
WAIT_S = 10.0


class Scene:
    """A cluster whose tasks start at once, and leave when the test says so."""

    def __init__(self) -> None:
        self.now, self.wake_s = 0.0, math.inf
        self.notes: list[dict[str, Any]] = []
        self.cores: dict[str, dict[str, float]] = {}
        self.leaving: list[Task] = []
        self.answered: dict[Task, str] = {}
        about = Elasticity(start=self.cores, port=self, wait_s=WAIT_S)
        self.cluster = ClusterCoordinator(MACHINES, Fifo(), FirstFit(), self, self.note, about)

    def note(self, t: float, kind: str, /, **fields: Any) -> None:
        self.notes.append({"t": t, "type": kind, **fields})

    def tell(self, *given: AnyInput) -> None:
        self.cluster.receive(self.now, *given)

    def submit(self, job: str, gpus: int, servers: int = 0, **cores: float) -> None:
        self.cores[job] = {"worker": 1.0, "server": 1.0, **cores}
        self.tell(JobSubmitted(JobRequest(job=job, submit_s=self.now, gpus=gpus, servers=servers)))

    def ask(self, job: str, node: str, cores: float, *, low: bool = False, not_on: tuple[int, ...] = ()) -> Task:
        asked = Asked(job=job, node=NodeId.parse(node), cores=cores, low=low, not_on=not_on)
        self.tell(NodeAsked(asked))
        return asked.task

    def wait(self, seconds: float) -> None:
        until_s = self.now + seconds
        while self.wake_s <= until_s:
            self.now, self.wake_s = max(self.now, self.wake_s), math.inf
            self.tell(Woke())
        self.now = until_s

    def start(self, job: JobState, places: Places) -> None:
        self.tell(JobStarted(job.request.job))

    def preempt(self, job: JobState) -> None:
        raise AssertionError("this policy does not")

    def wake(self, at_s: float) -> None:
        self.wake_s = at_s

    def grant(self, task: Task, machine: int) -> None:
        self.answered[task] = f"host:{machine}"

    def refuse(self, task: Task, reason: str) -> None:
        self.answered[task] = reason

    def take_back(self, task: Task) -> None:
        self.leaving.append(task)

    def held(self) -> Nodes:
        """(machine, cores, low priority) of every node, by job and name."""
        return reduce(after, self.notes, {})

    def free(self) -> list[tuple[float, int]]:
        """(cores, GPUs) left of every machine."""
        held = self.held()
        left = []
        for machine in MACHINES:
            here = [(name, cores) for (_, name), (number, cores, _) in held.items() if number == machine.number]
            workers = sum(name.startswith("worker") for name, _ in here)
            left.append(((machine.cpu_cores or 0.0) - sum(cores for _, cores in here), machine.gpus - workers))
        return left

    def fits(self, asked: Asked, free: list[tuple[float, int]]) -> bool:
        worker = asked.node.role == "worker"
        return any(
            cores >= asked.cores and (gpus > 0 or not worker) and number not in asked.not_on
            for number, (cores, gpus) in enumerate(free)
        )


def test_nodes_wait_their_turn_and_are_refused_after_a_while() -> None:
    """The second one would fit, but the first came before."""
    scene = Scene()
    scene.submit("a", 1, worker=4.0)
    scene.ask("a", "server:0", 6.0)
    large, small = scene.ask("a", "server:1", 5.0), scene.ask("a", "server:2", 1.0)
    assert {large, small}.isdisjoint(scene.answered)
    scene.wait(WAIT_S)
    assert scene.answered[large] == "cpu_cores=5: no host had so many left for 10 s"
    assert scene.answered[small] == "host:2"


def test_a_node_that_no_machine_could_hold_is_refused_at_once() -> None:
    scene = Scene()
    scene.submit("a", 1)
    worker = scene.ask("a", "worker:1", 6.5)
    nowhere = scene.ask("a", "server:0", 3.0, not_on=(0, 1, 2))
    assert scene.answered[worker] == "cpu_cores=6.5: no host has so many and a GPU"
    assert scene.answered[nowhere] == "cpu_cores=3: no host has so many"


def test_a_job_that_waits_comes_before_a_node_and_takes_low_ones_back() -> None:
    scene = Scene()
    scene.submit("a", 1)
    low, lower = scene.ask("a", "worker:1", 1.0, low=True), scene.ask("a", "worker:2", 1.0, low=True)
    assert len(scene.answered) == 2
    scene.submit("b", 1)
    assert scene.leaving == [lower]
    server = scene.ask("a", "server:0", 1.0)
    assert server not in scene.answered
    scene.tell(NodeLeft("a", lower.node))
    assert [note["job"] for note in scene.notes if note["type"] == "Placed"] == ["a", "b"]
    assert server in scene.answered
    assert low in scene.cluster.nodes.grants.held  # type: ignore[union-attr]


def there_are() -> None:
    """A host that has as many cores as the Brain's record says."""


def test_cores_that_a_host_refuses_are_neither_held_nor_in_the_record() -> None:
    scene = Scene()
    scene.submit("a", 1, worker=2.0)
    before = list(scene.notes)
    for cores in (3.0, 2.0):
        assert scene.cluster.allot(0.0, "a", NodeId.worker(0), cores, lambda: "the host has 1 left") == (
            "the host has 1 left"
        )
    assert scene.held()["a", "worker:0"][1] == 2.0
    assert scene.notes == before


def test_a_host_reserves_nothing_that_the_brain_refuses() -> None:
    scene, reserved = Scene(), list[float]()
    scene.submit("a", 1, worker=2.0)
    assert scene.cluster.allot(0.0, "a", NodeId.worker(0), 5.0, lambda: reserved.append(5.0)) is not None
    assert scene.cluster.allot(0.0, "a", NodeId.worker(0), 3.0, lambda: reserved.append(3.0)) is None
    assert reserved == [3.0]


def test_more_cores_need_room_and_nobody_who_waits() -> None:
    scene = Scene()
    scene.submit("a", 1, worker=2.0)
    worker = NodeId.worker(0)
    assert scene.cluster.allot(0.0, "a", worker, 5.0, there_are) == "cpu_cores=5: host:0 has not so many left"
    assert scene.cluster.allot(0.0, "a", worker, 3.0, there_are) is None
    server = scene.ask("a", "server:0", 6.0)
    waiting = scene.ask("a", "server:1", 4.0)
    assert server in scene.answered
    assert scene.cluster.allot(0.0, "a", worker, 4.0, there_are) == "cpu_cores=4: other nodes wait for cores"
    assert scene.cluster.allot(0.0, "a", worker, 0.0, there_are) is None
    scene.tell(CoresReturned("a"))
    assert scene.answered[waiting] == "host:0"


def test_the_record_refuses_more_than_a_machine_has() -> None:
    grants = Grants(MACHINES)
    grants.give(Task("a", NodeId.server(0)), Held(0, 3.0))
    with pytest.raises(ProtocolError, match=r"1\.5 cores of machine 0, which has 1 left"):
        grants.give(Task("b", NodeId.server(0)), Held(0, 1.5))
    with pytest.raises(ProtocolError, match="5 cores of machine 0"):
        grants.change(Task("a", NodeId.server(0)), 5.0)
    assert grants.cores_left(0) == 1.0
    with pytest.raises(ProtocolError, match="holds nothing"):
        grants.take(Task("b", NodeId.server(0)))


CORES = st.sampled_from((0.0, 0.5, 1.0, 2.0, 3.0, 5.0))


class AnySet(RuleBasedStateMachine):
    """Jobs come, grow, shrink and end, in any order; the Brain dies and returns."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene()
        self.asked: dict[Task, tuple[float, Asked]] = {}
        self.number = 0
        self.lives = True

    @property
    def running(self) -> list[str]:
        return sorted({job for job, _ in self.scene.held()})

    @property
    def unanswered(self) -> dict[Task, tuple[float, Asked]]:
        """When each was asked for, in this order."""
        return {task: about for task, about in self.asked.items() if task not in self.scene.answered}

    @rule(gpus=st.integers(1, 3), servers=st.integers(0, 2), worker=CORES, server=CORES)
    def submit(self, gpus: int, servers: int, worker: float, server: float) -> None:
        job, self.number = f"j{self.number}", self.number + 1
        self.scene.cores[job] = {"worker": worker, "server": server}
        request = JobRequest(job=job, submit_s=self.scene.now, gpus=gpus, servers=servers)
        if self.scene.cluster.problem_of(request) is None:
            self.scene.tell(JobSubmitted(request))

    @precondition(lambda self: self.running)
    @rule(
        data=st.data(),
        role=st.sampled_from(("worker", "server")),
        cores=CORES,
        low=st.booleans(),
        not_on=st.sets(st.integers(0, 2), max_size=2),
    )
    def ask(self, data: st.DataObject, role: str, cores: float, low: bool, not_on: set[int]) -> None:
        job, self.number = data.draw(st.sampled_from(self.running)), self.number + 1
        asked = Asked(job=job, node=NodeId(role, 100 + self.number), cores=cores, low=low, not_on=tuple(not_on))
        self.asked[asked.task] = (self.scene.now, asked)
        self.scene.tell(NodeAsked(asked))

    @precondition(lambda self: self.scene.leaving)
    @rule()
    def leave_as_ordered(self) -> None:
        task = self.scene.leaving.pop(0)
        self.scene.tell(NodeLeft(task.job, task.node))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """Any node leaves, or one that was asked for is not wanted any more."""
        there = [Task(job, NodeId.parse(name)) for job, name in sorted(self.scene.held())]
        task = data.draw(st.sampled_from(there + sorted(self.asked)))
        self.asked.pop(task, None)
        self.scene.tell(NodeLeft(task.job, task.node))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), cores=CORES)
    def allot(self, data: st.DataObject, cores: float) -> None:
        job, name = data.draw(st.sampled_from(sorted(self.scene.held())))
        before = self.scene.held()[job, name]
        refused = self.scene.cluster.allot(self.scene.now, job, NodeId.parse(name), cores, there_are)
        assert self.scene.held()[job, name][1] == (before[1] if refused else cores)
        assert refused is None or cores > before[1]
        self.scene.tell(CoresReturned(job))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self.running))
        self.asked = {task: about for task, about in self.asked.items() if task.job != job}
        self.scene.tell(JobEnded(job))

    @rule(seconds=st.sampled_from((1.0, 4.0, 25.0)))
    def wait(self, seconds: float) -> None:
        self.scene.wait(seconds)

    @rule()
    def lose_or_replace_the_brain(self) -> None:
        self.scene.tell(BrainLost() if self.lives else BrainBack())
        self.lives = not self.lives
        if self.lives:
            self.asked = {task: (self.scene.now, asked) for task, (_, asked) in self.asked.items()}

    @invariant()
    def no_machine_gives_more_than_it_has(self) -> None:
        for number, (cores, gpus) in enumerate(self.scene.free()):
            assert cores >= 0, f"machine {number} has {cores} cores left"
            assert gpus >= 0, f"machine {number} has {gpus} GPUs left"

    @invariant()
    def the_notes_are_the_record(self) -> None:
        """A new Brain could begin from them alone."""
        assert self.scene.cluster.nodes is not None
        held = self.scene.cluster.nodes.grants.held
        assert {(job, str(node)): (one.machine, one.cores, one.low) for (job, node), one in held.items()} == (
            self.scene.held()
        )
        assert self.scene.cluster.room.free == [gpus for _, gpus in self.scene.free()]

    @invariant()
    def whoever_asked_is_answered(self) -> None:
        """At the latest after ``wait_s``, as long as there is a Brain."""
        if self.lives:
            for task, (asked_s, _) in self.unanswered.items():
                assert self.scene.now < asked_s + WAIT_S, f"{task} waits since {asked_s} s"

    @invariant()
    def what_is_free_is_granted(self) -> None:
        """To the first in line; nothing while a job waits or the Brain is lost."""
        waiting = [job for job in self.scene.cluster.jobs.values() if job.phase == "waiting"]
        asked = [one for _, one in self.unanswered.values()]
        line = [one for one in asked if not one.low] or asked
        if self.lives and not waiting and line:
            assert not self.scene.fits(line[0], self.scene.free())

    @invariant()
    def only_nodes_of_low_priority_are_taken_back(self) -> None:
        held = self.scene.held()
        self.scene.leaving = [task for task in self.scene.leaving if (task.job, str(task.node)) in held]
        assert all(held[task.job, str(task.node)][2] for task in self.scene.leaving)
        assert all(task.node.role == "worker" for task in self.scene.leaving)


TestAnySet = AnySet.TestCase
TestAnySet.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)


@given(
    left=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=3),
    gpus=st.integers(1, 3),
    servers=st.integers(0, 2),
    worker=st.integers(0, 3),
    server=st.integers(0, 3),
)
def test_a_gang_starts_only_where_its_cores_are_left(
    left: list[tuple[int, int]], gpus: int, servers: int, worker: int, server: int
) -> None:
    """And if it has no servers, wherever any of all arrangements has room for it."""
    machines = [Machine(number=n, gpus=gpu, cpu_cores=float(cores)) for n, (gpu, cores) in enumerate(left)]
    start = {"a": {"worker": float(worker), "server": float(server)}}
    request = JobRequest(job="a", submit_s=0.0, gpus=gpus, servers=servers)
    places = WithinCores(FirstFit(), start, Grants(machines)).place(request, Room(machines))
    if places is not None:
        for number, (gpu, cores) in enumerate(left):
            workers = places.workers.count(number)
            assert workers <= gpu
            assert workers * worker + places.servers.count(number) * server <= cores
    elif servers == 0:
        arrangements = product(range(len(left)), repeat=gpus)
        assert not any(
            all(chosen.count(n) <= gpu and chosen.count(n) * worker <= cores for n, (gpu, cores) in enumerate(left))
            for chosen in arrangements
        )
