"""Pauses, sequences of unequal length and slow loaders: what they cost a barrier, by closed forms and simulations."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from injectors.patterns import Pauses, SequenceLengths, SlowLoader
from injectors.plan import ClusterShape, Disturbance, Plan
from injectors.schedule import Schedule
from tests.unit.injectors.test_patterns import by_target
from tests.unit.strategies.whole_jobs import jct_s

C = 0.06
"""Seconds of an undisturbed iteration of the default job with 4 workers."""
CLUSTER = ClusterShape(num_workers=4, num_servers=2, base_iter_s=C, num_hosts=4)
UNKNOWN = ClusterShape(num_workers=4, num_servers=2)


def cluster_of(num_workers: int) -> ClusterShape:
    return ClusterShape(num_workers=num_workers, num_servers=2, base_iter_s=C)


def job_s(words: str, num_workers: int = 4, epochs: int = 20) -> tuple[float, int]:
    """(seconds, rounds) of a BSP job in which nothing but computing and the plan takes time."""
    rounds = math.ceil(epochs * 1438 / 128)
    line = (
        f"runtime=virtual strategy=bsp cluster.costs=ideal cluster.num_workers={num_workers} workload=digits "
        f"cluster.device={{base_s:{C},per_sample_s:0}} workload.global_batch_samples=128 workload.epochs={epochs}"
    )
    return jct_s(f"{line} max_time_s=300 {words}"), rounds


def starts(plan: Plan) -> list[list[float]]:
    return [[one.start_s for one in own] for own in by_target(plan).values()]


@pytest.mark.parametrize("num_workers", [1, 8])
def test_a_barrier_waits_for_every_pause_of_every_rank_and_aligned_for_one(num_workers: int) -> None:
    """Over a time T with periods of P seconds: N T / P pauses of L seconds, and aligned T / P."""
    fields = {"period_iters": 80, "duration_s": 0.05}
    words = "straggler=pauses straggler.period_iters=80 straggler.duration_s=0.05 seed=3"
    for align in (False, True):
        total_s, rounds = job_s(f"{words} straggler.align={align}", num_workers)
        pattern = Pauses(period_s=None, **fields, align=align)  # type: ignore[arg-type]
        plan = pattern.plan(cluster_of(num_workers), 3000.0, 3)
        due = sorted({one.start_s for one in plan.disturbances if one.start_s < total_s - 0.05 - C})
        assert min(after - one for one, after in pairwise(due)) > 0.05 + C, "no two fall into one iteration"
        assert total_s == pytest.approx(rounds * C + len(due) * 0.05, abs=1e-4)
        pauses_per_s = (1 if align else num_workers) / (80 * C + 0.05)
        assert len(due) == pytest.approx(total_s * pauses_per_s, abs=1 if align else num_workers)


@pytest.mark.few(1)
@pytest.mark.parametrize("num_workers", [16, 64])
def test_pauses_that_fall_into_one_iteration_cost_one(num_workers: int) -> None:
    """An iteration has none with probability (1 - c / P)^N, so it takes c + L (1 - (1 - c / P)^N) on average."""
    words = "straggler=pauses straggler.period_iters=100 straggler.duration_s=0.12"
    ends = [job_s(f"{words} seed={seed}", num_workers, epochs=20) for seed in range(2)]
    rounds = sum(one[1] for one in ends)
    share = (sum(one[0] for one in ends) / rounds - C) / 0.12
    expected = 1 - (1 - C / (100 * C + 0.12)) ** num_workers
    assert share == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / rounds))


def paused_rounds_s(plan: Plan, rounds: int) -> float:
    """The end of a job whose emulated devices continue during a pause: a paused rank begins and ends its work late."""
    now_s = 0.0
    for _ in range(rounds):
        now_s = max(awake_s(own, awake_s(own, now_s) + C) for own in by_target(plan).values())
    return now_s


def awake_s(windows: list[Disturbance], t: float) -> float:
    return next((one.end_s for one in windows if one.start_s <= t < one.end_s), t)


def test_stopped_processes_delay_a_round_by_what_outlasts_the_device() -> None:
    fields = {"kind": "pause", "period_s": 2.0, "period_iters": "null", "duration_s": 0.25}
    words = " ".join(f"straggler.{field}={value}" for field, value in fields.items())
    total_s, rounds = job_s(f"straggler=pauses {words} seed=1")
    plan = Pauses(period_s=2.0, duration_s=0.25, kind="pause").plan(CLUSTER, 3000.0, 1)
    assert total_s == pytest.approx(paused_rounds_s(plan, rounds), abs=1e-4)
    assert total_s > rounds * C + 0.01


def test_phases_and_periods_and_their_drift() -> None:
    random = Pauses(period_s=2.0, duration_s=0.1).plan(cluster_of(200), 100.0, 0)
    first = [own[0] for own in starts(random)]
    assert stats.kstest(first, stats.uniform(0, 2).cdf).pvalue > 0.001
    assert stats.kstest(first, stats.uniform(0, 2.4).cdf).pvalue < 0.001
    assert all(after - one == pytest.approx(2.0) for own in starts(random) for one, after in pairwise(own))
    equal = Pauses(period_s=2.0, duration_s=0.1, phase="equal").plan(CLUSTER, 100.0, 0)
    assert starts(equal) == [pytest.approx(np.arange(2.0, 100.0, 2.0))] * 4
    fields: dict[str, Any] = {"period_s": 2.0, "duration_s": 0.1, "phase": "equal", "drift_frac": 0.1}
    drifting = by_target(Pauses(**fields).plan(cluster_of(200), 100.0, 0))
    periods = [own[0].start_s for own in drifting.values()]
    for own in drifting.values():
        assert [one.start_s for one in own] == pytest.approx(
            [own[0].start_s * (k + 1) for k in range(len(own))], abs=1e-4
        )
    assert stats.kstest(periods, stats.uniform(1.8, 0.4).cdf).pvalue > 0.001
    assert stats.kstest(periods, stats.uniform(1.8, 0.5).cdf).pvalue < 0.001
    aligned = starts(Pauses(**fields, align=True).plan(cluster_of(200), 100.0, 0))
    assert aligned == [[one.start_s for one in drifting["worker:0"]]] * 200


def expected_maximum(sigma: float, count: int) -> float:
    """Of ``count`` lognormal draws of mean 1: the integral of 1 - F(x)^count."""
    one = stats.lognorm(sigma, scale=math.exp(-(sigma**2) / 2))
    return float(integrate.quad(lambda x: 1 - one.cdf(x) ** count, 0, np.inf, limit=200)[0])


def test_work_is_lognormal_of_mean_1_and_balanced_the_mean_of_each_slot() -> None:
    plan = SequenceLengths(sigma=0.7).plan(CLUSTER, 300.0, 0)
    work = [one.magnitude for one in plan.disturbances]
    assert len(work) == 4 * 5000
    assert np.mean(work) == pytest.approx(1.0, abs=4 * math.sqrt(math.expm1(0.7**2) / len(work)))
    assert stats.kstest(work, stats.lognorm(0.7, scale=math.exp(-0.245)).cdf).pvalue > 0.001
    assert stats.kstest(work, stats.lognorm(0.75, scale=math.exp(-0.245)).cdf).pvalue < 0.001
    assert {one.kind for one in plan.disturbances} == {"slowdown"}
    plans = [SequenceLengths(balance=balance).plan(CLUSTER, 60.0, 0) for balance in (False, True)]
    apart, equal = ([[one.magnitude for one in own] for own in by_target(plan).values()] for plan in plans)
    assert np.array(equal) == pytest.approx(np.broadcast_to(np.mean(apart, axis=0), (4, 1000)), abs=2e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize(("num_workers", "sigma"), [(4, 0.5), (16, 1.0)])
def test_a_barrier_waits_for_the_expected_maximum_and_balanced_for_the_mean(num_workers: int, sigma: float) -> None:
    words = f"straggler=sequence_lengths straggler.num_sequences=1 straggler.sigma={sigma} straggler.added_frac=0.5"
    deviation = math.sqrt(math.expm1(sigma**2))
    for balance, expected in ((False, expected_maximum(sigma, num_workers)), (True, 1.0)):
        total_s, rounds = job_s(f"{words} straggler.balance={balance}", num_workers, epochs=30)
        # the maximum of n draws deviates by less than sqrt(n) times as much as one draw
        most = 4 * deviation / math.sqrt(rounds) * (math.sqrt(num_workers) if not balance else 1)
        assert total_s / (rounds * C) == pytest.approx(1 + 0.5 * expected, abs=0.5 * most)
        if not balance:
            assert total_s / (rounds * C) > 1.1 + 0.5


def test_lengths_from_a_file(tmp_path: Path) -> None:
    """E max = sum of x_k ((k / m)^n - ((k - 1) / m)^n) over the m sorted lengths."""
    path = tmp_path / "lengths.csv"
    path.write_text("name,tokens\na,100\nb,300\nc,50\nd,550\n")
    pattern = SequenceLengths(sigma=None, path=str(path), length_column="tokens")
    work = np.array([[one.magnitude for one in own] for own in by_target(pattern.plan(CLUSTER, 600.0, 0)).values()])
    values = np.array([0.2, 0.4, 1.2, 2.2])
    assert sorted(set(work.ravel())) == values.tolist()
    assert stats.chisquare(np.unique(work, return_counts=True)[1]).pvalue > 0.001
    steps = np.arange(5) / 4
    expected = float((values * np.diff(steps**4)).sum())
    assert work.max(axis=0).mean() == pytest.approx(expected, abs=4 * 0.8 / math.sqrt(work.shape[1]))
    words = f"straggler=sequence_lengths straggler.sigma=null straggler.path={path} straggler.length_column=tokens"
    total_s, rounds = job_s(f"{words} straggler.num_sequences=1", epochs=40)
    assert total_s / (rounds * C) == pytest.approx(1 + expected, abs=4 * 0.8 / math.sqrt(rounds))


def waits_by_ticks(compute: int, load: int, queue: int, rounds: int) -> int:
    """Ticks until a rank has computed ``rounds`` batches, with a queue that is full at first; one tick at a time."""
    ready, loading, computing, done, now = queue, 0, 0, 0, 0
    while done < rounds:
        if not computing and ready:
            ready, computing = ready - 1, compute
        if not loading and ready < queue:
            loading = load
        now += 1
        if computing:
            computing -= 1
            done += not computing
        if loading:
            loading -= 1
            ready += not loading
    return now


def planned_s(plan: Plan, compute_s: float, rounds: int) -> float:
    schedule, now_s = Schedule(plan), 0.0
    for _ in range(rounds):
        now_s += compute_s + schedule.delay_for("worker:0", now_s)[0]
    return now_s


@pytest.mark.parametrize("queue", [1, 2, 7])
@pytest.mark.parametrize(("compute", "load"), [(4, 5), (3, 20), (6, 4)])
def test_the_planned_waits_are_those_of_a_queue(compute: int, load: int, queue: int) -> None:
    pattern = SlowLoader(batch_s=load / 100, batch_iters=None, queue=queue, base_s=compute / 100, targets=("worker:0",))
    plan = pattern.plan(UNKNOWN, 600.0, 0)
    for rounds in (*range(1, 40), 200):
        expected = waits_by_ticks(compute, load, queue, rounds)
        assert expected == max(rounds * compute, (rounds - queue) * load + compute) or load <= compute
        assert planned_s(plan, compute / 100, rounds) == pytest.approx(expected / 100, abs=1e-4)


@pytest.mark.parametrize(("queue", "batch_iters"), [(8, 1.5), (8, 0.9)])
def test_a_barrier_is_as_slow_as_the_loader_once_its_queue_is_empty(queue: int, batch_iters: float) -> None:
    total_s, n = job_s(f"straggler=slow_loader straggler.queue={queue} straggler.batch_iters={batch_iters} seed=2")
    assert total_s == pytest.approx(max(n * C, (n - queue) * batch_iters * C + C), abs=1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("length\n", "has no rows"),
        ("length\n5\nx\n", "row 2 (line 3), column length, x: must be a finite number"),
        ("length\n5\n-3\n", "row 2 (line 3), column length, -3: must be 0 or more"),
        ("length\n0\n0\n", "column length: all lengths are 0"),
    ],
)
def test_a_file_of_lengths_is_checked(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="^" + re.escape(f"path={path}: {message}")):
        SequenceLengths(sigma=None, path=str(path)).plan(CLUSTER, 60.0, 0)
    other = f"length_column=tokens: {path} has no such column; it has length"
    with pytest.raises(ValueError, match="^" + re.escape(other)):
        SequenceLengths(sigma=None, path=str(path), length_column="tokens").plan(CLUSTER, 60.0, 0)
