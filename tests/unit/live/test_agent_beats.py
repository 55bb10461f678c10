"""What an agent does besides waiting for orders: it says that it is here, and awaits no child for long."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.live.agent import membership
from runtime.live.agent.membership import Cut, Membership
from runtime.live.control.allowed_senders import refuse_foreign
from runtime.live.joining import wire
from runtime.live.tasks import agent
from runtime.live.tasks.agent import Agent
from runtime.live.transport.messages import Heartbeat


@pytest.fixture
def beating(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, SimpleNamespace]:
    """An agent that owes a heartbeat every 0.5 s, and its clock."""
    clock: Any = SimpleNamespace(now_s=0.0)
    clock.monotonic = lambda: clock.now_s
    monkeypatch.setattr(agent, "time", clock)
    there: Any = object.__new__(Agent)
    there.spec, there._beat_s, there.said = SimpleNamespace(heartbeat_s=0.5), 0.0, []
    there.tell = there.said.append
    return there, clock


def test_it_says_that_it_is_here_once_a_period(beating: tuple[Any, SimpleNamespace]) -> None:
    there, clock = beating
    waits = []
    for clock.now_s in (0.0, 0.25, 0.5, 2.0):
        waits.append(there._beat())
    assert waits == [0.5, 0.25, 0.5, 0.5]
    assert there.said == [Heartbeat()] * 3
    refuse_foreign("agent", there.said[0])


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_child_that_is_stopped_before_it_is_tied_is_killed_and_the_agent_beats_meanwhile(
    beating: tuple[Any, SimpleNamespace], child: subprocess.Popen[bytes]
) -> None:
    there, clock = beating

    def wait(*_: object) -> tuple[list[int], list[int], list[int]]:
        clock.now_s += 0.5
        return [], [], []

    reading, writing = os.pipe()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "select", SimpleNamespace(select=wait))
        there._await_tied(reading, child.pid)
    assert child.wait(60) == -signal.SIGKILL
    assert len(there.said) > agent.TIED_S
    os.close(writing)
    os.close(reading)


def test_a_child_that_is_tied_is_left_alone(
    beating: tuple[Any, SimpleNamespace], child: subprocess.Popen[bytes]
) -> None:
    reading, writing = os.pipe()
    os.close(writing)  # as the child does when its life is tied to the agent's
    beating[0]._await_tied(reading, child.pid)
    assert child.poll() is None
    os.close(reading)


BEGIN = wire.Begin(spec=b"", salt=b"", lease_s=10.0, heartbeat_s=0.5)


def member_at(monkeypatch: pytest.MonkeyPatch) -> tuple[Membership, SimpleNamespace]:
    """An agent whose tasks run, and its clock."""
    clock: Any = SimpleNamespace(now_s=0.0)
    clock.monotonic = lambda: clock.now_s
    monkeypatch.setattr(membership, "time", clock)
    fakes: dict[str, Any] = {"channel": SimpleNamespace(pending=True), "facts": None}
    member = Membership(token=b"", folder=None, **fakes)
    member.launcher = SimpleNamespace(ended=lambda node: None)  # type: ignore[assignment]
    member.listens(BEGIN)
    return member, clock


def passes(member: Membership, clock: SimpleNamespace, seconds: float) -> None:
    for _ in range(round(seconds / membership.LOOK_EVERY_S)):
        clock.now_s += membership.LOOK_EVERY_S
        member.look(BEGIN)


@pytest.mark.parametrize(("suspended_s", "patient_s", "then_s"), [(0.0, 9.9, 0.3), (3600.0, 9.7, 0.5)])
def test_an_agent_ends_its_tasks_when_the_driver_is_silent_and_does_not_count_its_own_sleep(
    suspended_s: float, patient_s: float, then_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was suspended with its driver gives that its time."""
    member, clock = member_at(monkeypatch)
    clock.now_s += suspended_s
    passes(member, clock, patient_s)
    with pytest.raises(Cut, match="no word from the driver"):
        passes(member, clock, then_s)
