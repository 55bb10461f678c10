"""Or et al.'s autoscaling, its rules and as the strategy of a job: MLSys 2020, its scaling heuristic and its
replacement of stragglers; threshold and steps of DLRover section 6.3."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.elastic.or_autoscale import OrAutoscale
from strategies.elastic.or_autoscale.autoscaling import (
    Autoscaler,
    Autoscaling,
    AutoscalingPlanner,
    SlowWorkers,
    marginal_gain,
)
from strategies.parts.scaling.usage import Given
from strategies.protocol import Arrived, NodeId, Restored, Started, Timings
from tests.support.examples import examples
from tests.support.grads import make_grad
from tests.support.growing import GrowingRun, numbers
from tests.support.laws import played


def test_sizes_are_compared_by_samples_over_time() -> None:
    """Definition of the gain: s_k = ((R_new - R_old) / (N_new - N_old)) / (R_old / N_old). Published code: with one
    size known there is no gain to compare. Beyond the paper: not the mean of rates: one long iteration counts for
    as long as it took."""
    assert marginal_gain(4, 40, 8, 70) == pytest.approx(0.75)
    assert marginal_gain(8, 70, 12, 80) == pytest.approx(0.286, abs=5e-4)
    assert marginal_gain(2, 10, 4, 20) == pytest.approx(1.0)
    scaler = Autoscaler(Autoscaling(step_workers=1), workers=1)
    assert play(scaler, {1: 10.0, 2: 1.0}) == [1, 2, 1]
    scaler = Autoscaler(Autoscaling(step_workers=1, min_iters=2), workers=1)
    for seconds in (7.0, 1.0, 3.0):
        scaler.observe(10, seconds)
    scaler.decide()
    assert scaler.rates == {1: pytest.approx(5.0)}


def play(scaler: Autoscaler, rates: dict[int, float], iterations: int = 200) -> list[int]:
    """Sizes one after another, in a cluster that grants everything."""
    sizes = [scaler.workers]
    for _ in range(iterations):
        scaler.observe(100, 100 / rates[scaler.workers])
        if (size := scaler.decide()) is not None:
            scaler.take_size(size)
            sizes.append(size)
    return sizes


def test_a_size_counts_after_ten_iterations_and_the_first_is_skipped() -> None:
    """Published code: ten measured iterations."""
    scaler = Autoscaler(Autoscaling(), workers=4)
    scaler.observe(100, 1e9)  # while everybody connects
    for iteration in range(1, 11):
        assert scaler.decide() is None
        scaler.observe(100, 2.5)
        assert iteration < 10 or scaler.decide() == 8
    assert scaler.rates == {4: pytest.approx(40.0)}


@examples(20)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 64), st.floats(-0.5, 2.0), st.data())
def test_it_ends_at_a_size_that_it_has_seen(
    workers: int, step: int, more: int, threshold: float, data: st.DataObject
) -> None:
    """Beyond the paper: no size above the bound, at most one step back, and then nothing more."""
    rates = {size: data.draw(st.floats(1, 1000)) for size in range(workers, workers + more + 1, step)}
    scaler = Autoscaler(Autoscaling(step_workers=step, threshold=threshold), workers, workers + more)
    sizes = play(scaler, rates, iterations=12 * (more + 3))
    assert scaler.stays
    assert max(sizes) <= workers + more
    assert sum(later < size for size, later in pairwise(sizes)) <= 1
    grown = sizes if sizes == sorted(sizes) else sizes[:-2]
    assert all(scaler.gains[size] > threshold for size in grown[1:])


def test_stragglers_are_flagged_after_five_iterations_slowest_first() -> None:
    """Published code: EWMA with weight 0.1: 1, .95, .905, .8645, .828, .795 < 0.8. Beyond the paper: several
    stragglers at once."""
    slow = SlowWorkers(Autoscaling())
    flagged = []
    for iteration in range(1, 8):
        for worker in (0, 1, 2):
            slow.observe(worker, 10.0 if worker or iteration < 2 else 5.0)
        flagged.append(slow.slow())
    assert flagged == [[]] * 5 + [[0]] * 2
    assert slow.average[1] == pytest.approx(1.0)
    slow = SlowWorkers(Autoscaling(slow_weight=1.0))
    for worker, rate in enumerate((3.0, 10.0, 10.0, 1.0, 10.0)):
        slow.observe(worker, rate)
    slow.observe(0, 3.0)
    assert slow.slow() == [3, 0]
    slow.forget(3)
    assert slow.slow() == [0]
    assert 3 not in slow.average


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
