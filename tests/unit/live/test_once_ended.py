"""What a set of jobs waits for when a task moves: the end of the processes that it has then, and of no later ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runtime.live.control.job import LiveJob
from strategies.protocol import NodeId

ONE, OTHER = NodeId.worker(1), NodeId.worker(2)


class Waiting:
    """A live job of which only its processes are there: ``there[node]``, by incarnation."""

    def __init__(self) -> None:
        self.there: dict[NodeId, set[int]] = {ONE: {0}, OTHER: {0}}
        self.called: list[str] = []
        self.job: Any = LiveJob.__new__(LiveJob)
        self.job._awaited = []
        self.job.loop = SimpleNamespace(after=lambda after_s, then: then())
        self.job.machines = SimpleNamespace(leave_behind=lambda task: None)
        supervisor = SimpleNamespace(processes=lambda node: frozenset(self.there[node]))
        self.job.session = SimpleNamespace(supervisor=supervisor)

    def once(self, node: NodeId, what: str) -> None:
        self.job.once_ended(node, lambda: self.called.append(what))

    def ends(self, node: NodeId, incarnation: int) -> list[str]:
        """What follows the end of a process."""
        self.there[node].discard(incarnation)
        before = len(self.called)
        self.job._process_ended(node)
        return self.called[before:]


def test_the_next_process_of_a_task_is_not_waited_for() -> None:
    job = Waiting()
    job.once(ONE, "left")
    job.there[ONE].add(1)  # launched before the exit of the first is reported, as with scheduler.pending_s=0
    assert job.ends(OTHER, 0) == []
    assert job.ends(ONE, 0) == ["left"]
    assert job.ends(ONE, 1) == []


def test_a_task_that_moves_twice_leaves_twice() -> None:
    job = Waiting()
    job.once(ONE, "first")
    job.there[ONE].add(1)
    job.once(ONE, "second")
    assert job.ends(ONE, 0) == ["first"]
    assert job.ends(ONE, 1) == ["second"]


def test_of_a_task_without_a_process_nothing_is_waited_for() -> None:
    job = Waiting()
    job.there[ONE].clear()
    job.once(ONE, "at once")
    assert job.called == ["at once"]
