"""A live job that is preempted: it has left when its last process has, and starts where it is given places."""

from __future__ import annotations

from runtime.live.transport.messages import KillTask, Launch, Saved
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId
from tests.unit.live.test_leases import SETTINGS
from tests.unit.live.test_supervisor import World, started

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


def test_a_job_has_left_when_the_last_of_its_processes_has() -> None:
    """Once: an agent may report an end again, when it connects again. Who has left in time has not failed."""
    world = leaving()
    for key in world.keys:
        assert "left" not in world.names()
        world.die(key)
    assert world.names()[-1] == "left"
    world.die(("worker", 0))
    assert world.names().count("left") == 1
    assert failures_after(world, 2 * SETTINGS.iteration_deadline_s) == []


def test_its_tasks_start_again_where_they_have_places_now() -> None:
    world = leaving()
    for key in world.keys:
        world.die(key)
    world.supervisor.resume({NodeId.worker(1): ELSEWHERE})
    launched = {(one.role, one.id): one for one in world.said(Launch)}
    assert set(launched) == set(world.keys)
    assert {key for key, one in launched.items() if one.place == ELSEWHERE} == {("worker", 1)}
    assert {one.incarnation for one in launched.values()} == {1}


def test_one_that_cannot_store_its_checkpoint_holds_nobody_up_for_ever() -> None:
    world = started()
    world.supervisor.save(7, b"seven")
    world.supervisor.suspend()
    world.tell(("server", 0), Saved(id=1, seconds=0.1))
    assert failures_after(world, SETTINGS.iteration_deadline_s) == [
        "it is preempted, and has not left within runtime.iteration_deadline_s=30: its checkpoint is not stored"
    ]


def test_nor_does_one_whose_process_cannot_be_killed() -> None:
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
