"""The supervisor on a clock of our own, with a hub that only listens: who is started, fenced and restored when."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

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
    Message,
    Report,
    Saved,
    TaskReady,
)
from strategies.protocol import Timings
from tests.unit.live.test_leases import SETTINGS

Key = tuple[str, int]


class Clock:
    """A loop without sockets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.sequence = count()

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self.timers, (self.now + delay_s, next(self.sequence), call))

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


# ---- start ----------------------------------------------------------------------------------------------------------


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


# ---- workers --------------------------------------------------------------------------------------------------------


def test_a_dead_worker_is_started_again_and_fenced_off() -> None:
    world = started()
    world.die(("worker", 1))
    assert world.launched[("worker", 1)] == 1
    assert len(world.said(Fence)) == 2
    assert ("WorkerLost", 1, 0, "killed by signal 9", True, "killed") in world.heard
    assert not world.supervisor.admit(Identity("worker", 1, 0)), "the dead do not call"
    world.connect(("worker", 1))
    world.attach(("worker", 1))
    assert ("WorkerJoined", 1, 1) in world.heard


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


def test_silence_is_death_when_the_lease_is_over() -> None:
    world = started()
    world.silent.add(("worker", 1))
    world.live(1.9)
    assert not world.said(KillTask)
    world.live(3.0)
    assert [(m.role, m.id, m.incarnation) for m in world.said(KillTask)] == [("worker", 1, 0)]
    assert world.launched[("worker", 1)] == 1
    assert world.names() == ["WorkerLost"]


def test_without_restarts_a_worker_leaves_and_the_last_one_is_missed() -> None:
    world = started(max_restarts=0)
    world.die(("worker", 0))
    assert ("WorkerLost", 0, 0, "killed by signal 9", False, "killed") in world.heard
    assert not world.said(Launch)
    incarnation = world.supervisor.tasks["worker", 1].incarnation
    world.tell(
        ("agent", 0), Exited(role="worker", id=1, incarnation=incarnation, pid=1, exit_code=-1, signal=9, last_line="")
    )
    assert world.heard[-1] == ("failed", "no worker is left")


def test_a_process_that_never_calls_is_not_waited_for_for_ever() -> None:
    """It was stopped between its fork and its call, say; nothing else will ever tell."""
    world = started()
    world.die(("worker", 1))
    world.live(60.0)
    assert [(m.role, m.id, m.incarnation) for m in world.said(KillTask)][:1] == [("worker", 1, 1)]
    assert world.launched[("worker", 1)] > 1


def test_a_lost_connection_is_looked_into() -> None:
    """If no server turns out to be dead, the connection was at fault, and its worker is restarted."""
    world = started()
    world.tell(("worker", 0), LinkLost(generation=0, reason="reset"))
    world.live(SEVERED_GRACE_S / 2)
    assert not world.said(KillTask)
    world.live(2 * SEVERED_GRACE_S)
    assert [(m.role, m.id) for m in world.said(KillTask)] == [("worker", 0)]


# ---- servers --------------------------------------------------------------------------------------------------------


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
