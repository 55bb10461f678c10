"""The supervisor on a clock of our own, with a hub that only listens: who is started, fenced and restored when."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from runtime.core import inputs
from runtime.errors import DEVICE_FULL
from runtime.live.control.agents import Agents
from runtime.live.control.supervisor import SEVERED_GRACE_S, LiveSupervisor
from runtime.live.control.tasks import CROWDED_S
from runtime.live.transport.address import Address
from runtime.live.transport.auth import Identity
from runtime.live.transport.messages import (
    AgentReady,
    Attach,
    Attached,
    Exited,
    Fence,
    Forked,
    Heartbeat,
    KillTask,
    Launch,
    LinkLost,
    LoadCheckpoint,
    Loaded,
    MalformedMessage,
    Message,
    Report,
    Saved,
    TaskReady,
)
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId, Timings
from tests.unit.live.test_leases import SETTINGS

Key = tuple[str, int]


class Clock:
    """A loop without sockets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.sequence = count()

    def at(self, when_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self.timers, (when_s, next(self.sequence), call))

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        self.at(self.now + delay_s, call)

    def pass_to(self, then: float) -> None:
        while self.timers and self.timers[0][0] <= then:
            due, _, call = heapq.heappop(self.timers)
            self.now = max(self.now, due)
            call()
        self.now = then


def agents_of(world: Any) -> Agents:
    """One agent, which nobody has to start."""
    fakes: dict[str, Any] = {"launcher": None, "hub": world, "loop": world.clock, "failed": world.failed}
    return Agents(logs=Path(), lease_s=5.0, **fakes)


class Machines:
    """Hosts on which the kernel has killed the tasks ``short`` for their memory; ``left``: whose processes ended."""

    def __init__(self) -> None:
        self.places: dict[str, Any] = {}
        self.short: set[str] = set()
        self.left: list[str] = []

    def killed_for_memory(self, task: str) -> bool:
        return task in self.short

    def leave_behind(self, task: str) -> None:
        self.left.append(task)


class World:
    """Everything around a supervisor. ``sent`` and ``heard`` are what it said to tasks and to the session."""

    listens = "server"
    """The role of tasks that others connect to."""

    def __init__(self, *, workers: int = 2, servers: int = 2, **settings: Any) -> None:
        self.clock = Clock()
        self.sent: list[tuple[Key, Message]] = []
        self.heard: list[tuple[Any, ...]] = []
        self.peers: dict[Key, Any] = {}
        self.silent: set[Key] = set()
        self.launched: dict[Key, int] = {}
        """The incarnation that was launched last."""
        self.machines = Machines()
        settings |= {"num_workers": workers, "num_servers": servers}
        given = msgspec.structs.replace(SETTINGS, **settings)
        self.supervisor = LiveSupervisor(self.clock, given, self, self, agents_of(self), self.machines)

    # the hub
    def send(self, key: Key, message: Message) -> None:
        self.sent.append((key, message))
        if isinstance(message, Launch):
            self.launched[message.role, message.id] = message.incarnation

    def hang_up(self, key: Key) -> None:
        self.peers.pop(key, None)

    # the session and its nodes
    @property
    def nodes(self) -> World:
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *words, **more: self.heard.append((name, *words, *more.values()))

    def recovery_says(self, news: inputs.OfRecovery) -> None:
        if not isinstance(news, inputs.AuxiliaryJoined):
            self.heard.append((type(news).__name__, *msgspec.structs.astuple(news)))

    def overdue(self, now: float, limit_s: float) -> list[int]:
        return []

    # what tasks do
    def said(self, kind: type[Message], key: Key | None = None) -> list[Any]:
        return [message for to, message in self.sent if isinstance(message, kind) and key in (None, to)]

    def tell(self, key: Key, message: Message, incarnation: int | None = None) -> None:
        newest = self.supervisor.tasks[key].incarnation if key in self.supervisor.tasks else 0
        self.supervisor.receive(Identity(*key, newest if incarnation is None else incarnation), message)

    def connect(self, key: Key) -> None:
        """A process has been forked, has called, and is ready."""
        incarnation = self.launched[key]
        self.tell(("agent", 0), Forked(role=key[0], id=key[1], incarnation=incarnation, pid=100))
        assert self.supervisor.admit(Identity(*key, incarnation))
        address = (
            Address(transport="tcp", host="127.0.0.1", port=1000 + incarnation) if key[0] == self.listens else None
        )
        self.tell(key, TaskReady(num_parameters=10, address=address))

    def attach(self, *keys: Key) -> None:
        for key in keys:
            newest = self.said(Attach, key)[-1]
            self.tell(key, Attached(generation=newest.generation))

    def die(self, key: Key, number: int = 9, code: int = -1, words: str = "") -> None:
        incarnation = self.launched[key]
        exited = Exited(
            role=key[0], id=key[1], incarnation=incarnation, pid=100, exit_code=code, signal=number, last_line=words
        )
        self.tell(("agent", 0), exited)

    @property
    def keys(self) -> list[Key]:
        return list(self.supervisor.tasks)

    @property
    def clients(self) -> list[Key]:
        return [key for key in self.keys if key[0] != "server"]

    def names(self) -> list[str]:
        return [words[0] for words in self.heard if words[0] != "note"]

    def forget(self) -> None:
        self.sent.clear()
        self.heard.clear()

    def live(self, until: float, step: float = 0.25) -> None:
        """Time passes; everybody who is connected and not silent beats."""
        while self.clock.now < until:
            self.clock.pass_to(min(until, self.clock.now + step))
            for key, task in self.supervisor.tasks.items():
                if task.connected and key not in self.silent:
                    self.tell(key, Heartbeat())


def started(kind: type[World] = World, **settings: Any) -> World:
    """A job in training, after its first checkpoint."""
    world = kind(**settings)
    world.tell(("agent", 0), AgentReady(import_s=1.0, versions={}))
    for key in world.keys:
        world.connect(key)
    world.attach(*world.clients)
    assert world.names() == ["agent_ready", "agents_ready", "all_attached"]
    world.supervisor.save(0, b"start")
    for key in world.keys:
        if key[0] == "server":
            world.tell(key, Saved(id=0, seconds=0.1))
    world.forget()
    return world


def recover(world: World, version: int = 7) -> None:
    """All servers load; nobody is attached yet."""
    for key, message in [(key, message) for key, message in world.sent if isinstance(message, LoadCheckpoint)]:
        loaded = Loaded(id=message.id, generation=message.generation, version=version, state=b"then")
        world.tell(key, loaded)


def test_nobody_is_started_before_the_agent_is_ready_and_nothing_begins_before_all_are_there() -> None:
    world = World()
    assert not world.said(Launch)
    world.tell(("agent", 0), AgentReady(import_s=1.0, versions={}))
    assert [(m.role, m.id, m.incarnation) for m in world.said(Launch)] == [(*key, 0) for key in world.keys]
    for key in reversed(world.keys):
        assert not world.said(Attach)
        world.connect(key)
    assert {message.generation for message in world.said(Attach)} == {0}
    assert all(len(message.servers) == 2 for message in world.said(Attach))
    for key in world.clients:
        assert "all_attached" not in world.names()
        world.attach(key)
    assert world.names()[-1] == "all_attached"


def test_who_does_not_come_in_time_is_named() -> None:
    world = World()
    world.tell(("agent", 0), AgentReady(import_s=1.0, versions={}))
    for key in world.keys:
        if key != ("worker", 1):
            world.connect(key)
    world.live(10.5)
    ((_, reason),) = [words for words in world.heard if words[0] == "failed"]
    assert reason.startswith("not ready after runtime.start_deadline_s=10: ")
    assert reason.endswith("; see logs/, or allow more on a busy machine")
    assert "worker 1" in reason


def test_a_dead_worker_is_started_again_and_fenced_off_and_silence_is_death() -> None:
    world = started()
    world.die(("worker", 1))
    assert world.launched[("worker", 1)] == 1
    assert len(world.said(Fence)) == 2
    assert ("WorkerLost", 1, 0, "killed by signal 9", True, "killed") in world.heard
    assert not world.supervisor.admit(Identity("worker", 1, 0)), "the dead do not call"
    world.connect(("worker", 1))
    world.attach(("worker", 1))
    assert ("WorkerJoined", 1, 1) in world.heard
    world = started()
    world.silent.add(("worker", 1))
    world.live(1.9)
    assert not world.said(KillTask)
    world.live(3.0)
    assert [(m.role, m.id, m.incarnation) for m in world.said(KillTask)] == [("worker", 1, 0)]
    assert world.launched[("worker", 1)] == 1
    assert world.names() == ["WorkerLost"]


def delivers(world: World, worker: int) -> None:
    world.tell(("worker", worker), Report(grad_id=0, loss=None, sqr_norm=None, finite=True, timings=Timings()))


def test_who_finds_the_memory_of_a_killed_process_on_its_device_starts_again_a_little_later() -> None:
    world = started()
    world.die(("worker", 0))
    world.die(("worker", 0), 0, DEVICE_FULL, "torch.OutOfMemoryError: CUDA out of memory.")
    assert world.launched["worker", 0] == 1
    world.live(world.clock.now + CROWDED_S)
    assert world.launched["worker", 0] == 2
    world.connect(("worker", 0))
    world.attach(("worker", 0))
    delivers(world, 0)
    world.die(("worker", 0), 0, DEVICE_FULL, "torch.OutOfMemoryError: CUDA out of memory.")
    assert world.heard[-1] == ("failed", "worker 0 crashed: torch.OutOfMemoryError: CUDA out of memory.")


def test_a_process_that_never_calls_is_not_waited_for_and_a_lost_connection_is_looked_into() -> None:
    """It was stopped between its fork and its call, say; nothing else will ever tell."""
    world = started()
    world.die(("worker", 1))
    world.live(60.0)
    assert [(m.role, m.id, m.incarnation) for m in world.said(KillTask)][:1] == [("worker", 1, 1)]
    assert world.launched[("worker", 1)] > 1
    world = started()
    world.tell(("worker", 0), LinkLost(generation=0, reason="reset"))
    world.live(SEVERED_GRACE_S / 2)
    assert not world.said(KillTask)
    world.live(2 * SEVERED_GRACE_S)
    assert [(m.role, m.id) for m in world.said(KillTask)] == [("worker", 0)]


def test_a_dead_server_takes_everybody_back_to_the_last_whole_checkpoint() -> None:
    world = started()
    world.supervisor.save(5, b"later")
    world.tell(("server", 0), Saved(id=1, seconds=0.1))  # but not its other half
    world.die(("server", 1))
    assert world.heard[-1] == ("ServerLost", 1, 0, "killed by signal 9", "killed", True)
    assert not world.said(Fence), "without replicas workers hear of no server"
    world.tell(("worker", 0), LinkLost(generation=0, reason="reset"))
    assert not world.said(LoadCheckpoint)
    world.connect(("server", 1))
    assert [(m.id, m.generation) for m in world.said(LoadCheckpoint)] == [(0, 1), (0, 1)]
    assert not world.said(Attach)
    recover(world)
    assert {(m.generation, len(m.servers)) for m in world.said(Attach)} == {(1, 2)}
    world.attach(("worker", 0))
    assert "Restored" not in world.names()
    world.attach(("worker", 1))
    assert ("Restored", 7, b"then") in [words[:3] for words in world.heard]
    world.live(5.0)
    assert not world.said(KillTask), "the connection was lost because of the server"


def test_without_restarts_a_dead_server_ends_the_run() -> None:
    world = started(max_restarts=0)
    world.die(("server", 0))
    ((_, reason),) = [words for words in world.heard if words[0] == "failed"]
    assert "server 0 is gone" in reason
    assert "runtime.max_restarts=0" in reason


def test_who_is_held_is_started_when_released_and_who_is_restarted_when_it_is_not_pending_any_more() -> None:
    world = started()
    world.supervisor.hold(("worker", 0), "killed by the plan")
    assert world.heard[-1] == ("WorkerLost", 0, 0, "killed by the plan", True, "killed")
    assert [(kill.role, kill.id, kill.incarnation) for kill in world.said(KillTask)] == [("worker", 0, 0)]
    world.live(world.clock.now + 60)
    assert not world.said(Launch), "nobody misses it"
    for _ in range(2):
        world.supervisor.release(("worker", 0))
        assert world.said(Launch) == [Launch(role="worker", id=0, incarnation=1)]
    world = started()
    world.supervisor.restart(NodeId.worker(0), 5.0)
    assert [(kill.role, kill.id, kill.incarnation) for kill in world.said(KillTask)] == [("worker", 0, 0)]
    assert [(fence.role, fence.id, fence.incarnation) for fence in world.said(Fence)] == [("worker", 0, 0)] * 2
    assert world.names() == ["moved"], "the coordinator has notified the strategy already"
    world.live(world.clock.now + 4.5)
    assert not world.said(Launch)
    world.live(world.clock.now + 1.0)
    assert [(one.role, one.id, one.incarnation) for one in world.said(Launch)] == [("worker", 0, 1)]


@pytest.mark.parametrize("stores", [True, False])
def test_a_server_that_is_restarted_goes_when_all_have_stored_what_they_hold_or_cannot(stores: bool) -> None:
    world = started()
    world.supervisor.save(7, b"seven")
    world.supervisor.restart(NodeId.server(1), 2.0)
    world.tell(("server", 0), Saved(id=1, seconds=0.1))
    assert not world.said(KillTask)
    if stores:
        world.tell(("server", 1), Saved(id=1, seconds=0.1))
    else:
        world.live(world.clock.now + 31.0)
    assert [(kill.role, kill.id) for kill in world.said(KillTask)] == [("server", 1)]
    assert [words[:2] for words in world.heard if words[0] == "ServerLost"] == [("ServerLost", 1)]
    assert world.supervisor.recovery.state.checkpoints.complete == stores


def test_who_says_what_it_cannot_say_loses_its_connection() -> None:
    world = started()
    with pytest.raises(MalformedMessage, match="TaskReady, out of turn: worker 0 is attached: built is impossible"):
        world.tell(("worker", 0), TaskReady(num_parameters=10))
    world.tell(("worker", 0), Heartbeat())


ELSEWHERE = Place(host="host:1")


def leaving() -> World:
    """A job that has stored its checkpoint; all of its processes are being killed."""
    world = started()
    world.supervisor.save(7, b"seven")
    world.supervisor.suspend()
    for server in range(2):
        assert not world.said(KillTask)
        world.tell(("server", server), Saved(id=1, seconds=0.1))
    assert {(kill.role, kill.id) for kill in world.said(KillTask)} == set(world.keys)
    return world


def test_a_job_has_left_with_its_last_process_and_starts_again_where_it_has_places() -> None:
    """Once: an agent may report an end again, when it connects again. Who has left in time has not failed."""
    world = leaving()
    for key in world.keys:
        assert "left" not in world.names()
        world.die(key)
    assert world.names()[-1] == "left"
    world.die(("worker", 0))
    assert world.names().count("left") == 1
    assert failures_after(world, 2 * SETTINGS.iteration_deadline_s) == []
    world = leaving()
    for key in world.keys:
        world.die(key)
    world.supervisor.resume({NodeId.worker(1): ELSEWHERE})
    launched = {(one.role, one.id): one for one in world.said(Launch)}
    assert set(launched) == set(world.keys)
    assert {key for key, one in launched.items() if one.place == ELSEWHERE} == {("worker", 1)}
    assert {one.incarnation for one in launched.values()} == {1}


def test_one_that_cannot_store_or_cannot_be_killed_holds_nobody_up_for_ever() -> None:
    world = started()
    world.supervisor.save(7, b"seven")
    world.supervisor.suspend()
    world.tell(("server", 0), Saved(id=1, seconds=0.1))
    assert failures_after(world, SETTINGS.iteration_deadline_s) == [
        "it is preempted, and has not left within runtime.iteration_deadline_s=30: its checkpoint is not stored"
    ]
    world = leaving()
    for key in world.keys:
        if key not in (("worker", 0), ("server", 1)):
            world.die(key)
    assert failures_after(world, SETTINGS.iteration_deadline_s) == [
        "it is preempted, and has not left within runtime.iteration_deadline_s=30: the kernel has not ended server 1, "
        "worker 0"
    ]


def failures_after(world: World, seconds: float) -> list[str]:
    """Why the job has failed when everybody who is connected has only said so for so long."""
    world.live(world.clock.now + seconds)
    return [words[1] for words in world.heard if words[0] == "failed"]


LIMIT_S = SETTINGS.iteration_deadline_s


class Late(World):
    """The session misses a gradient of worker 1 as soon as the limit is over."""

    def overdue(self, now: float, limit_s: float) -> list[int]:
        return [1] if now > limit_s and not self.said(KillTask) else []


def test_who_computes_for_too_long_is_started_again() -> None:
    world = started(Late)
    world.live(LIMIT_S)
    assert not world.said(KillTask)
    world.live(LIMIT_S + 1.0)
    assert [(kill.role, kill.id, kill.incarnation) for kill in world.said(KillTask)] == [("worker", 1, 0)]
    reason = f"no gradient within runtime.iteration_deadline_s={LIMIT_S:g}"
    assert [words for words in world.heard if words[0] == "WorkerLost"] == [
        ("WorkerLost", 1, 0, reason, True, "silent")
    ]


def test_a_kill_for_memory_is_no_kill_like_others_and_no_error_of_its_own() -> None:
    world = started()
    world.machines.short = {"worker:1"}
    for worker in range(2):
        world.die(("worker", worker))
    assert [words[1:] for words in world.heard if words[0] == "WorkerLost"] == [
        (0, 0, "killed by signal 9", True, "killed"),
        (1, 0, "used more memory than it may", True, "oom"),
    ]
    world = started()
    world.machines.short = {"worker:1"}
    world.die(("worker", 1), number=0, code=1, words="ValueError: no data")
    assert world.heard[-1] == ("failed", "worker 1 crashed: ValueError: no data")


class Moving(World):
    """On hosts: worker 0 has another one, and for the others there is none."""

    def moved(self, node: NodeId) -> Place | None:
        return Place(host="host:1") if node == NodeId.worker(0) else None


def test_who_is_restarted_starts_on_its_new_host_and_its_end_is_told_when_it_is_reported() -> None:
    world = started(Moving)
    before = Place(host="host:0")
    for task in world.supervisor.tasks.values():
        task.place = before
    for worker in range(2):
        world.supervisor.restart(NodeId.worker(worker), 0.0)
    world.live(world.clock.now + 0.5)
    assert [(one.id, one.place) for one in world.said(Launch)] == [(0, Place(host="host:1")), (1, before)]
    world = started(Moving)
    ended = world.machines.left
    worker = NodeId.worker(0)
    world.supervisor.restart(worker, 1.0)
    world.live(world.clock.now + 0.1)
    assert (ended, world.supervisor.processes(worker)) == ([], {0})
    world.die(("worker", 0))
    assert (ended, world.supervisor.processes(worker)) == (["worker:0"], set())
    world.live(world.clock.now + 2.0)
    assert world.supervisor.processes(worker) == {1}, "the next one, on its next host"


def test_the_record_says_how_long_each_checkpoint_took_from_its_own_order() -> None:
    """The first one is never complete, as a server had no time for its part before the second was ordered."""
    world = started()
    world.supervisor.save(5, b"five")
    world.live(world.clock.now + 2.0)
    world.supervisor.save(9, b"nine")
    ordered_s = world.clock.now
    world.live(ordered_s + 0.5)
    for server in range(2):
        world.tell(("server", server), Saved(id=2, seconds=0.1))
    notes: list[Any] = [words for words in world.heard if words[:2] == ("note", "Checkpointed")]
    assert notes == [("note", "Checkpointed", 2, 9, pytest.approx(0.5))]


ONE, OTHER = NodeId.worker(1), NodeId.worker(2)


class Waiting:
    """A supervisor of which only processes are there: ``there[node]``, by incarnation."""

    def __init__(self) -> None:
        self.there: dict[NodeId, set[int]] = {ONE: {0}, OTHER: {0}}
        self.called: list[str] = []
        self.supervisor: Any = LiveSupervisor.__new__(LiveSupervisor)
        self.supervisor._awaited = []
        self.supervisor.loop = SimpleNamespace(after=lambda after_s, then: then())
        self.supervisor.processes = lambda node: frozenset(self.there[node])

    def once(self, node: NodeId, what: str) -> None:
        self.supervisor.once_ended(node, lambda: self.called.append(what))

    def ends(self, node: NodeId, incarnation: int) -> list[str]:
        """What follows the end of a process."""
        self.there[node].discard(incarnation)
        before = len(self.called)
        self.supervisor._look_who_ended(node)
        return self.called[before:]


def test_a_task_that_moves_twice_leaves_twice_and_its_next_process_is_not_waited_for() -> None:
    job = Waiting()
    job.once(ONE, "left")
    job.there[ONE].add(1)  # launched before the exit of the first is reported, as with scheduler.pending_s=0
    assert job.ends(OTHER, 0) == []
    assert job.ends(ONE, 0) == ["left"]
    assert job.ends(ONE, 1) == []
    job = Waiting()
    job.once(ONE, "first")
    job.there[ONE].add(1)
    job.once(ONE, "second")
    assert job.ends(ONE, 0) == ["first"]
    assert job.ends(ONE, 1) == ["second"]
    job = Waiting()
    job.there[ONE].clear()
    job.once(ONE, "at once")
    assert job.called == ["at once"]
