"""Or et al.'s autoscaling as a strategy of a running job: after "Resource elasticity in distributed deep learning",
MLSys 2020, with threshold and steps of DLRover (Wang et al., arXiv:2304.01468) section 6.3."""

from __future__ import annotations

from typing import Any

import pytest

from strategies.elastic.or_autoscale import OrAutoscale
from strategies.elastic.or_autoscale.autoscaling import Autoscaling, AutoscalingPlanner
from strategies.parts.scaling.usage import Given
from strategies.protocol import Arrived, NodeId, Restored, Started, Timings
from tests.support.grads import make_grad
from tests.support.growing import GrowingRun, numbers
from tests.support.laws import played

RATES = {4: 40.0, 8: 70.0, 12: 80.0, 16: 88.0}


def rate(servers: int, workers: int) -> float:
    """40, 70, 80 updates per second of 4, 8, 12 workers, on a straight line in between."""
    low = max(size for size in (0, *RATES) if size <= workers)
    if low == workers:
        return RATES[low]
    high = low + 4
    below = RATES.get(low, 0.0)
    return below + (RATES[high] - below) * (workers - low) / 4


def scaled(max_time_s: float = 100.0, run: dict[str, Any] | None = None, **changes: Any) -> GrowingRun:
    """A job of 4 workers at the start, 4 at a time, with a decision in 10 s; nothing was refused."""
    strategy = OrAutoscale(**{"adjust_every_s": 10.0, "decide_every_s": 1.0, **changes})
    job = GrowingRun(strategy, rate, workers=4, max_time_s=max_time_s, **(run or {}))
    assert played(job) == []
    return job


@pytest.mark.few(1)
@pytest.mark.parametrize("seamless", [False, True])
def test_it_returns_to_the_last_size_that_gained_enough(seamless: bool) -> None:
    """DLRover section 6.3: gains of 0.75 and 0.286 at 8 and 12 workers with a threshold of 0.3."""
    job = scaled(seamless=seamless)
    assert job.size == (1, 8)
    assert job.asked == "W" * 8
    assert len(job.retired) == 4
    rules = [one.split(":")[0].split(", ")[1] for one in job.decisions]
    assert rules == ["more workers", "more workers", "no gain", "stays"]
    second, third = (numbers(one) for one in job.decisions[1:3])
    assert second["gain"] == pytest.approx(0.75, rel=0.02)
    assert third["gain"] == pytest.approx(0.286, rel=0.05)


@pytest.mark.parametrize("seamless", [False, True])
def test_a_slow_worker_is_replaced(seamless: bool) -> None:
    """Abstract: stragglers are replaced; the new one is launched first, and the old one leaves when it has joined."""
    job = scaled(8.0, run={"slower": {2: 3.0}}, seamless=seamless, adjust_every_s=100.0)
    assert "slow workers: Replace node worker:2" in job.decisions[0]
    assert numbers(job.decisions[0])["throughput"] < 0.8
    (launched_s, launch), (retired_s, retired) = job.launches[0], job.retired[0]
    assert (launch.node, retired) == ("worker:4", "worker:2")
    assert retired_s == launched_s + job.launch_s
    assert job.restarts == [], "nobody else restarts"


def test_who_has_left_while_parameters_were_restored_is_no_measure_of_others() -> None:
    """Beyond the paper: of rates 1 and 1/2 the median is 3/4, and not the 1/2 of three with the 1/4 of who has left."""
    planner = AutoscalingPlanner(Autoscaling(slow_weight=1.0))
    given = {NodeId.worker(worker): Given(cores=3, memory_bytes=2**30) for worker in range(3)}
    planner.start(Started(t=0.0, workers=(0, 1, 2), batch_samples=(1, 1, 1), num_servers=1), given)

    def iterate(worker: int, seconds: float) -> None:
        planner.observe_event(Arrived(t=1.0, grad=make_grad(worker), timings=Timings(compute_s=seconds)), given)

    for worker, seconds in ((0, 1.0), (1, 1.0), (2, 4.0)):
        iterate(worker, seconds)
    planner.observe_event(Restored(t=2.0, version=0, workers=(0, 1), servers=(0,)), given)
    for worker, seconds in ((0, 1.0), (1, 2.0)):
        iterate(worker, seconds)
    assert planner.slow_workers.slow() == [1]
    assert planner.slow_workers.average[1] == pytest.approx(2 / 3)
