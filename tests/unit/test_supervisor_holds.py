"""Planned kills: who is held is killed, and started again when it is released."""

from __future__ import annotations

from runtime.live.messages import KillTask, Launch
from runtime.live.tasks import MAX_STILLBORN
from tests.unit.test_supervisor import started


def test_who_is_held_is_killed_at_once_and_started_when_released() -> None:
    world = started()
    world.supervisor.hold(("worker", 0), "killed by the plan")
    assert world.heard[-1] == ("worker_lost", 0, "killed by the plan", True)
    kills = [message for _, message in world.sent if isinstance(message, KillTask)]
    assert [(kill.role, kill.id, kill.incarnation) for kill in kills] == [("worker", 0, 0)]
    launches = len([message for _, message in world.sent if isinstance(message, Launch)])
    world.live(world.clock.now + 60)
    assert len([message for _, message in world.sent if isinstance(message, Launch)]) == launches, "nobody misses it"
    world.supervisor.release(("worker", 0))
    assert world.sent[-1] == (("agent", 0), Launch(role="worker", id=0, incarnation=1))
    world.supervisor.release(("worker", 0))
    assert len([message for _, message in world.sent if isinstance(message, Launch)]) == launches + 1


def test_planned_kills_are_no_failures() -> None:
    """Neither of the task, which did not die of itself, nor of those that a limit allows."""
    world = started(max_restarts=0)
    for incarnation in range(1, MAX_STILLBORN + 3):
        world.supervisor.hold(("worker", 0), "killed by the plan")
        world.supervisor.release(("worker", 0))
        assert world.supervisor.tasks["worker", 0].incarnation == incarnation
    assert not [said for said in world.heard if said[0] == "failed"]


def test_a_held_server_stops_everything_until_it_is_back() -> None:
    world = started()
    world.supervisor.hold(("server", 1), "killed by the plan")
    assert world.heard[-1][:2] == ("server_lost", 1)
    assert world.supervisor.phase == "launching"
    world.clock.pass_to(world.clock.now + 5)
    assert world.supervisor.phase == "launching"
    world.supervisor.release(("server", 1))
    assert world.sent[-1] == (("agent", 0), Launch(role="server", id=1, incarnation=1))
