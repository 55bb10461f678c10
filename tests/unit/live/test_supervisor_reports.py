"""What the supervisor makes of what others report: late gradients, kills for memory, places, stored parts."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.live.transport.messages import KillTask, Launch, Saved
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId
from tests.unit.live.test_leases import SETTINGS
from tests.unit.live.test_supervisor import World, started

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


def test_a_kill_for_memory_is_no_kill_like_others() -> None:
    world = started()
    world.machines.short = {"worker:1"}
    for worker in range(2):
        world.die(("worker", worker))
    assert [words[1:] for words in world.heard if words[0] == "WorkerLost"] == [
        (0, 0, "killed by signal 9", True, "killed"),
        (1, 0, "used more memory than it may", True, "oom"),
    ]


def test_who_ends_by_an_error_of_its_own_was_not_killed_for_memory() -> None:
    """The kernel counts the kills of a group, whichever of its processes was meant."""
    world = started()
    world.machines.short = {"worker:1"}
    world.die(("worker", 1), number=0, code=1, words="ValueError: no data")
    assert world.heard[-1] == ("failed", "worker 1 crashed: ValueError: no data")


class Moving(World):
    """On hosts: worker 0 has another one, and for the others there is none."""

    def moved(self, node: NodeId) -> Place | None:
        return Place(host="host:1") if node == NodeId.worker(0) else None


def test_a_task_that_is_restarted_starts_on_its_new_host_or_where_it_was() -> None:
    world = started(Moving)
    before = Place(host="host:0")
    for task in world.supervisor.tasks.values():
        task.place = before
    for worker in range(2):
        world.supervisor.restart(NodeId.worker(worker), 0.0)
    world.live(world.clock.now + 0.5)
    assert [(one.id, one.place) for one in world.said(Launch)] == [(0, Place(host="host:1")), (1, before)]


def test_the_end_of_a_process_is_told_when_its_exit_is_reported() -> None:
    """Not when it is given up: until then it is on its host."""
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
