"""Replicas whose sums end in time: what is late is lost and counted, each sample counts once, and nobody waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.live.machines.doctor import missing
from tests.live.test_disturbances import write_plan
from tests.support.exact import assert_sound
from tests.support.leaks import Start
from tests.support.runs import DIGITS, Run

pytestmark = pytest.mark.live

JOB = (*DIGITS, "topology=allreduce", "topology.collective=transpose", "workload.epochs=2", "save_parameters=true")


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


@pytest.mark.long(like="test_sums_that_have_no_time_lose_parts_and_the_job_ends")
def test_what_a_slow_link_carries_too_late_is_lost_and_the_job_ends(start: Start, tmp_path: Path) -> None:
    """All that comes to worker 0 passes the link, and of what comes to others only the messages of worker 0."""
    if lack := missing("network") or missing("links"):
        pytest.skip(f"{lack.reason}; {lack.cure}")
    hosts = ("cluster=hosts", "cluster.hosts.real_cores_per_core=0.05", "workload.task.hidden_units=6000")
    slow = write_plan(tmp_path / "plan.csv", (0.5, 1.5, "link:0", "bandwidth", 0.01))
    run = start("run", *JOB, *hosts, "topology.bound_s=0.6", *slow).finish(120.0)
    assert lost_bytes(run) > 0
    lost = [sum(note["lost_bytes"] for note in run.notes("Late") if note["worker"] == worker) for worker in range(4)]
    assert lost[0] > max(lost[1:]) > 0
    assert_each_sample_counts_once(run)
