"""Agents are keyed by node: who may call, who gets which order, and what is said when one cannot start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.api import AgentStart
from runtime.core.layout import Layout
from runtime.live.control.agents import Agents
from runtime.live.launchers.local import LocalLauncher
from runtime.live.transport.address import Address
from runtime.live.transport.auth import Identity
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import KillTask
from runtime.live.transport.task_spec import TaskSpec

NODES = ("alpha", "beta")
LEASE_S, START_S = 60.0, 60.0


class Launched:
    """A launcher that only remembers; ``gone``: nodes whose agent has ended."""

    def __init__(self) -> None:
        self.started: dict[str, AgentStart] = {}
        self.gone: set[str] = set()
        self.for_s = 0.0

    def start(self, node: str, agent: AgentStart) -> None:
        self.started[node] = agent

    def ended(self, node: str) -> str | None:
        return "exit code 1" if node in self.gone else None

    def end(self, node: str) -> None:
        self.gone.add(node)

    def kill_all(self) -> None:
        self.gone |= set(self.started)

    def replace(self, node: str) -> float:
        return self.for_s

    def address(self, node: str) -> str:
        return "10.0.0.3"

    def cores(self, node: str) -> int:
        return 4


class Scene:
    def __init__(self, logs: Path, lease_s: float = LEASE_S, start_s: float = START_S) -> None:
        self.loop, self.launcher, self.failures = Loop(), Launched(), list[str]()
        self.sent: list[tuple[Any, Any]] = []
        self.peers: dict[Any, Any] = {}
        hub: Any = self
        times = {"lease_s": lease_s, "start_deadline_s": start_s}
        self.agents = Agents(self.launcher, hub, self.loop, logs, self.failures.append, NODES, **times)

    def send(self, key: Any, message: Any) -> None:
        self.sent.append((key, message))

    def hang_up(self, key: Any) -> None:
        self.peers.pop(key, None)

    def listens(self) -> list[tuple[str, ...]]:
        """What machines that have joined hear."""
        told: list[tuple[str, ...]] = []
        joined = {
            word: lambda *words, word=word: told.append((word, *map(str, words))) for word in ("lost", "here", "back")
        }
        self.agents.joined = cast("Any", SimpleNamespace(**joined))
        return told

    def running(self) -> None:
        """Both agents are here."""
        self.agents.start(spec_of)
        for number in range(2):
            self.peers["agent", number] = None
            self.agents.ready(number)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.loop.close()


def kill(number: int) -> KillTask:
    return KillTask(role="worker", id=number, incarnation=0)


def test_orders_go_to_the_agent_of_the_task(scene: Scene) -> None:
    assert [scene.agents.ready(number) for number in (1, 1, 0, 0)] == [False, False, True, False], "only once"
    scene.agents.node_of["worker:1"] = "beta"
    scene.agents.tell("worker:0", kill(0))
    scene.agents.tell("worker:1", kill(1))
    assert scene.sent == [(("agent", 0), kill(0)), (("agent", 1), kill(1))]


def test_one_that_ends_before_it_has_called_is_reported_with_its_last_words(scene: Scene) -> None:
    scene.agents.start(spec_of)
    assert list(scene.launcher.started) == list(NODES)
    scene.peers["agent", 0] = None
    scene.launcher.gone = {"alpha", "beta"}
    (scene.agents.log_of("beta")).write_text("first\nno such module\n")
    scene.loop.turn(1.0)
    assert scene.failures == ["the agent could not start: no such module"]


def test_another_machine_takes_the_place_of_a_lost_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.live.control.agents.REPORTED_S", 0.01)
    told = scene.listens()
    scene.running()
    scene.launcher.for_s, scene.launcher.gone, scene.launcher.started = 60.0, {"beta"}, {}
    scene.agents.lost(1)
    for _ in range(3):
        scene.loop.turn(1.0)
    assert told == [("lost", "beta", "exit code 1")]
    assert ("agent", 1) not in scene.peers
    scene.launcher.gone = set()
    scene.loop.turn(1.0)
    assert told[1:] == [("here", "beta", "10.0.0.3")]
    assert list(scene.launcher.started) == ["beta"]
    assert scene.agents.expects(Identity("agent", 1))
    scene.agents.lost(1)
    assert not scene.agents.ready(1), "the job begins once"
    scene.peers["agent", 1] = None
    for _ in range(3):
        scene.loop.turn(0.2)
    assert scene.failures == [], "the loss of its predecessor is over"
    assert told[2:] == [("back", "beta")]


def test_the_end_of_the_job_is_no_loss(scene: Scene) -> None:
    scene.running()
    scene.agents.end_those_that_start()
    scene.launcher.for_s, scene.launcher.gone = 60.0, {"alpha", "beta"}
    told = scene.listens()
    for _ in range(3):
        scene.loop.turn(0.2)
    assert (told, scene.failures) == ([], [])


@pytest.mark.parametrize("may_be_replaced", [False, True])
def test_an_agent_that_is_silent_ends_the_job_unless_another_may_take_its_place(
    tmp_path: Path, may_be_replaced: bool
) -> None:
    """Whatever its machine says: there, too, nobody notices that it is stopped."""
    scene = Scene(tmp_path, lease_s=0.01)
    told = scene.listens()
    scene.running()
    scene.launcher.for_s = 60.0 * may_be_replaced
    scene.loop.turn(1.0)
    silent = "no heartbeat for 0.01 s; it is stopped or hangs (runtime.lease_s allows more)"
    if may_be_replaced:
        assert [words[:2] for words in told] == [("lost", node) for node in NODES]
        assert (scene.failures, scene.peers) == ([], {})
    else:
        assert scene.failures == [f"{node} is lost: {silent}" for node in NODES]
    scene.loop.close()


def test_nobody_takes_the_place_in_time(scene: Scene) -> None:
    scene.running()
    scene.launcher.for_s, scene.launcher.gone = 0.01, {"beta"}
    for _ in range(3):
        scene.loop.turn(1.0)
    assert set(scene.failures) == {"beta is lost, and no other agent took its place in time (launcher.rejoin_s)"}


def spec_of(agent: int) -> TaskSpec:
    fields: dict[str, Any] = {key: {} for key in ("optimizer", "backend", "task")}
    numbers = dict.fromkeys(("seed", "num_workers", "num_samples", "num_shards", "validation_samples"), 1)
    address = Address(transport="tcp", host="127.0.0.1", port=1)
    return TaskSpec(
        run_dir="", coordinator=address, secret=b"", agent=agent, heartbeat_s=1.0, transport="tcp", shard_samples=None,
        device=None, layout=Layout.initial(1, 1), **fields, **numbers,
    )  # fmt: skip


def test_those_that_have_not_called_are_ended_since_they_would_not_listen(scene: Scene) -> None:
    scene.agents.start(spec_of)
    assert scene.agents.awaited == "the agent of alpha, the agent of beta"
    scene.peers["agent", 1] = None
    scene.agents.end_those_that_start()
    assert scene.launcher.gone == {"alpha"}
    assert scene.agents.there
    scene.agents.kill()
    assert not scene.agents.there


def test_a_local_agent_that_cannot_read_its_task_says_how_it_ended(tmp_path: Path) -> None:
    launcher = LocalLauncher()
    assert launcher.ended("local") == "it was never started"
    launcher.start("local", AgentStart(spec=b"\xc1", log=tmp_path / "agent.log"))
    launcher._agents["local"].wait(30)
    assert launcher.ended("local") == "exit code 1"
    assert (tmp_path / "agent.log").read_text()
