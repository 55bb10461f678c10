"""What a set of jobs waits for when a task moves: the end of the processes that it has then, and of no later ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runtime.live.control.supervisor import LiveSupervisor
from strategies.protocol import NodeId

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
