"""Ray's nodes in networks of their own (root): partitions, and raylets that are killed with SIGKILL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.on_ray.apart import RayApart
from tests.on_ray.test_rays_nodes import ENDLESS, PATIENCE_S, SLOW, assert_nothing_is_left
from tests.support.exact import assert_used, assert_uses_are_exact
from tests.support.invariants import problems
from tests.support.joined import EAGER_ND, errors, rejoining
from tests.support.leaks import Start
from tests.support.runs import DIGITS, LEDGER, Run

pytestmark = [pytest.mark.ray, pytest.mark.live, pytest.mark.timeout(400)]

EPOCHS = 6
JOB = (*LEDGER, *SLOW, f"workload.epochs={EPOCHS}", "save_parameters=true")


def begin(cluster: RayApart, start: Start, name: str, *words: str) -> Run:
    """A run where the head is."""
    with cluster.machines.at_driver():
        return start(name, *words, *cluster.words)


def test_a_killed_raylet_ends_the_job_in_one_line(ray_apart: RayApart, start: Start) -> None:
    """Its agent ends with it, and the others in good order."""
    run = begin(ray_apart, start, "run", *ENDLESS)
    run.await_training(3, PATIENCE_S)
    ray_apart.kill_raylet(ray_apart.machines.network.addresses[1])
    (line,) = errors(run, 1)
    assert "node1 is lost: its agent is gone" in line
    assert problems(run.lines()) == []
    assert_nothing_is_left()


def test_the_tasks_of_a_killed_raylet_are_on_another_machine_then(
    ray_apart_with_spare: RayApart, start: Start, shared: Path
) -> None:
    """One of them is the worker that AntDT-ND has restarted; Ray gives the machine that had no task."""
    run = begin(ray_apart_with_spare, start, "run", *ENDLESS, *EAGER_ND, *rejoining(shared), "save_parameters=true")

    def launches() -> list[str]:
        """The nodes of worker 1, one after another."""
        return [one["node"] for one in run.notes("Launched") if (one["role"], one["id"]) == ("worker", 1)]

    run.await_that(lambda: any(one["worker"] == 1 for one in run.events("Joined")), "worker 1 again", PATIENCE_S)
    node, before = launches()[-1], len(launches())
    addresses = {one["node"]: one["address"] for one in run.meta["machine"]["nodes"]}
    (spare,) = set(ray_apart_with_spare.machines.network.addresses) - set(addresses.values())
    ray_apart_with_spare.kill_raylet(addresses[node])
    run.await_notes("NodeJoined", 1, PATIENCE_S)
    run.await_that(lambda: launches()[before:] == [node], "worker 1 on the other machine", PATIENCE_S)
    run.await_progress(5, PATIENCE_S)
    run.interrupt(PATIENCE_S)
    assert [(one["node"], one["address"]) for one in run.notes("NodeJoined")] == [(node, spare)]
    assert_uses_are_exact(run)
    assert problems(run.lines()) == []
    assert_nothing_is_left()


def test_a_run_whose_own_raylet_is_killed_trains_on(ray_apart: RayApart, start: Start) -> None:
    """With it Ray's tables end; what Ray has started remains until its nodes give up, a minute later."""
    run = begin(ray_apart, start, "run", *JOB)
    run.await_training(3, PATIENCE_S)
    ray_apart.kill_raylet(ray_apart.machines.driver)
    run.await_progress(3, PATIENCE_S)
    run.finish(PATIENCE_S)
    assert_used(run, EPOCHS)
    assert_nothing_is_left()


def test_bsp_over_two_networks_is_bit_equal_to_that_of_one_machine(ray_apart: RayApart, start: Start) -> None:
    job = (*DIGITS, "workload.epochs=1")
    there = begin(ray_apart, start, "there", *job).finish(PATIENCE_S)
    assert there.sha256 == start("here", *job).finish(PATIENCE_S).sha256
    assert [node["address"] for node in there.meta["machine"]["nodes"]] == ray_apart.machines.network.addresses
    assert_nothing_is_left()


def test_a_partition_beyond_the_lease_ends_the_job_and_leaves_nothing_behind_it(
    ray_apart: RayApart, start: Start
) -> None:
    run = begin(ray_apart, start, "run", *ENDLESS)
    run.await_training(3, PATIENCE_S)
    ray_apart.machines.cut(1, True)
    (line,) = errors(run, 1)
    assert line.endswith("node1 is lost: no word from it for launcher.lease_s=3")
    assert_nothing_is_left()
