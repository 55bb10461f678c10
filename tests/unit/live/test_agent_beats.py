"""What an agent does besides waiting for orders: it says that it is here, and awaits no child for long."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.live.control.allowed_senders import refuse_foreign
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
