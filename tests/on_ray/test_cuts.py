"""Partitions of 1 s and 30 s between a machine of Ray's and the run (root), shorter and longer than the agent's lease.

Ray itself (2.60) does not give up a node that it has not heard for 30 s.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.on_ray.apart import RayApart
from tests.on_ray.test_nodes_apart import LONG_LEASE, begin
from tests.on_ray.test_on_ray import LEASE_S, PATIENCE_S, SLOW, assert_nothing_is_left, of_ours
from tests.support.exact import assert_used
from tests.support.joined import rejoining
from tests.support.leaks import Start
from tests.support.runs import LEDGER, Run

pytestmark = [pytest.mark.ray, pytest.mark.live, pytest.mark.timeout(400)]

EPOCHS = 4
JOB = (
    *LEDGER,
    SLOW[0],
    f"workload.epochs={EPOCHS}",
    "save_parameters=true",
    "checkpoint_every_s=0.5",
    "max_time_s=300",
)


def assert_exact(run: Run) -> None:
    """Every sample was used as often, and nothing of the run is left."""
    assert_used(run, EPOCHS)
    assert_nothing_is_left()


@pytest.mark.parametrize(("cut_s", "tasks_lease_s"), [(1.0, 6.0), pytest.param(30.0, 1.0, marks=pytest.mark.long)])
def test_a_cut_shorter_than_the_machines_lease_is_survived_and_the_ledger_is_exact(
    ray_apart: RayApart, start: Start, cut_s: float, tasks_lease_s: float
) -> None:
    """Shorter than the lease of tasks, too, it is only a pause; else those beyond it start again."""
    leases = ("runtime.heartbeat_s=0.2", f"runtime.lease_s={tasks_lease_s:g}", LONG_LEASE)
    run = begin(ray_apart, start, "run", *JOB, *leases)
    run.await_training(3, PATIENCE_S)
    ray_apart.machines.cut(1, True)
    time.sleep(cut_s)
    ray_apart.machines.cut(1, False)
    run.finish(PATIENCE_S)
    fenced = {(note["role"], note["id"]) for note in run.notes("Fenced")}
    if cut_s < tasks_lease_s:
        assert fenced == set()
        assert run.events("Lost") == []
    else:
        assert {("worker", 1), ("server", 1)} <= fenced
    assert_exact(run)


@pytest.mark.long(like="test_a_cut_shorter_than_the_machines_lease_is_survived_and_the_ledger_is_exact")
def test_a_machine_given_up_in_a_cut_of_30_s_is_empty_before_its_end_and_gets_another_agent_then(
    ray_apart: RayApart, start: Start, shared: Path
) -> None:
    """It has a worker and a server: all roll back to the last checkpoint."""
    run = begin(ray_apart, start, "run", *JOB, *SLOW[1:], *rejoining(shared))
    run.await_training(5, PATIENCE_S)
    beyond = ray_apart.machines.pids_at(1)
    assert beyond & of_ours().keys()
    ray_apart.machines.cut(1, True)
    begun_s = time.monotonic()
    run.await_notes("NodeLost", 1, PATIENCE_S)
    while (left := ray_apart.machines.pids_at(1) & of_ours().keys()) and time.monotonic() < begun_s + LEASE_S + 5.0:
        time.sleep(0.1)
    assert not left
    time.sleep(max(0.0, begun_s + 30.0 - time.monotonic()))
    assert run.notes("NodeJoined") == []
    ray_apart.machines.cut(1, False)
    run.finish(PATIENCE_S)
    assert [note["node"] for note in run.notes("NodeJoined")] == ["node1"]
    assert_exact(run)
