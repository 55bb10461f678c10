"""Planned kills: who is held is killed, and started again when it is released."""

from __future__ import annotations

import pytest

from runtime.live.control.tasks import MAX_FUTILE
from runtime.live.transport.messages import Fence, Heartbeat, KillTask, Launch, MalformedMessage, Saved, TaskReady
from strategies.protocol import NodeId
from tests.unit.live.test_supervisor import started


def test_who_is_held_is_killed_at_once_and_started_when_released() -> None:
    world = started()
    world.supervisor.hold(("worker", 0), "killed by the plan")
    assert world.heard[-1] == ("WorkerLost", 0, 0, "killed by the plan", True, "killed")
    assert [(kill.role, kill.id, kill.incarnation) for kill in world.said(KillTask)] == [("worker", 0, 0)]
    world.live(world.clock.now + 60)
    assert not world.said(Launch), "nobody misses it"
    for _ in range(2):
        world.supervisor.release(("worker", 0))
        assert world.said(Launch) == [Launch(role="worker", id=0, incarnation=1)]


def test_planned_kills_are_no_failures() -> None:
    """Neither of the task, which did not die of itself, nor of those that a limit allows."""
    world = started(max_restarts=0)
    for incarnation in range(1, MAX_FUTILE + 3):
        world.supervisor.hold(("worker", 0), "killed by the plan")
        world.supervisor.release(("worker", 0))
        assert world.supervisor.tasks["worker", 0].incarnation == incarnation
    assert not [said for said in world.heard if said[0] == "failed"]


def test_a_worker_that_is_restarted_is_pending_and_nobody_waits_for_it() -> None:
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
