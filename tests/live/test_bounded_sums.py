"""Replicas whose sums end in time: what is late is lost and counted, each sample counts once, and nobody waits."""

from __future__ import annotations

import pytest

from tests.support.exact import assert_sound
from tests.support.leaks import Start
from tests.support.runs import DIGITS, Run

pytestmark = pytest.mark.live

JOB = (*DIGITS, "topology=allreduce", "topology.collective=transpose", "workload.epochs=2", "save_parameters=true")
MODEL_FLOATS = "num_parameters"


def lost_bytes(run: Run) -> int:
    """Of all sums of a run that has ended; no note has more than comes to a replica."""
    late, size = run.notes("Late"), 4 * run.finished["num_parameters"]
    workers = run.meta["job"]["num_workers"]
    for note in late:
        assert 0 < note["lost_bytes"] <= note["sum_bytes"] == 2 * (workers - 1) * size
    return sum(note["lost_bytes"] for note in late)


def assert_each_sample_counts_once(run: Run) -> None:
    assert run.finished["status"] == "done"
    assert run.finished["epochs_done"] == 2
    assert run.finished["samples_applied"] == 2 * run.meta["job"]["num_samples"]
    assert_sound(run)


@pytest.mark.long(like="test_sums_that_have_no_time_lose_parts_and_the_job_ends")
def test_with_time_it_trains_as_without_a_bound_to_the_bit(start: Start) -> None:
    without = start("without", *JOB).finish()
    ample = start("ample", *JOB, "topology.bound_s=600").finish()
    assert ample.sha256 == without.sha256
    assert lost_bytes(ample) == lost_bytes(without) == 0


def test_sums_that_have_no_time_lose_parts_and_the_job_ends(start: Start) -> None:
    """Also when a worker dies meanwhile: it takes the parameters of another."""
    run = start("run", *JOB, "topology.bound_s=1e-6", "cluster.device={base_s: 0.02}")
    run.await_training(5)
    assert run.unregister(("worker", 1))
    run.await_events("Restored")
    run.finish()
    assert lost_bytes(run) > 0
    assert_each_sample_counts_once(run)
