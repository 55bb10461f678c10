"""Ray's nodes in networks of their own (root): a machine that receives nothing from the run for a while."""

from __future__ import annotations

import pytest

from tests.on_ray.apart import RayApart
from tests.on_ray.test_on_ray import ENDLESS, PATIENCE_S, assert_nothing_is_left
from tests.support.joined import errors
from tests.support.leaks import Start
from tests.support.runs import DIGITS, Run

pytestmark = [pytest.mark.ray, pytest.mark.live, pytest.mark.timeout(400)]

LONG_LEASE = "launcher.lease_s=60"


def begin(cluster: RayApart, start: Start, name: str, *words: str) -> Run:
    """A run where the head is."""
    with cluster.machines.at_driver():
        return start(name, *words, *cluster.words)


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
