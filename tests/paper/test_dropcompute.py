"""DropCompute against its source: Giladi et al., NeurIPS 2023, algorithms 1 and 2, the expected effective speed-up of
its analysis, and its code (github.com/paper-submissions/dropcompute, commit 77c62e7)."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from runtime.core.executor import CUT
from stragglab.tables import dropcompute as table
from strategies.basic.bsp import BSP
from strategies.dropcompute import DropCompute
from strategies.dropcompute.threshold import MOST_THRESHOLDS, Round, best_threshold, effective_speedups
from strategies.protocol import Compute
from tests.contract.catalogue import faults, uneven_job
from tests.support.harness import HeapRun, Rig, make_job
from tests.support.laws import uses
from tests.support.long_tests import long_after
from tests.support.runs import ROOT
from tests.support.virtual_runs import VirtualRun, draw_world

TWO = [Round(((1.0, 2.0, 3.0, 4.0), (3.0, 6.0, 9.0, 12.0)), 1.0)]
"""A worker whose micro-batches take 1 s, one whose take 3 s, and 1 s of communication."""


def profile(seed: int, workers: int, micro_batches: int, rounds: int = 1) -> list[Round]:
    """Latencies of micro-batches are Gamma(4, 25 ms), communication takes 120 ms."""
    latencies_s = np.random.default_rng(seed).gamma(4.0, 25.0, size=(workers, rounds, micro_batches)) / 1000
    ends_s = latencies_s.cumsum(axis=2)
    return [Round(tuple(map(tuple, ends_s[:, place])), 0.12) for place in range(rounds)]


# ---- algorithm 1 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold_s", [3.5, 3.0])
def test_a_worker_stops_after_the_threshold_and_the_update_waits_for_no_more(threshold_s: float) -> None:
    """Algorithm 1. Of four micro-batches of a sample, the fast worker's take 1 s each and the slow one's 3 s. At 3.5 s
    the fast one has 3 and the slow one 1, and both complete one more: an update every 6 s of 6 samples, divided by 8.
    With 3 s it is the same, since the code stops only when the threshold is exceeded."""
    job = make_job(num_workers=2, global_batch_samples=8, max_time_s=18.0)
    run = HeapRun(DropCompute(micro_batches=4, threshold_s=threshold_s), job, [4, 12]).run()
    assert [t for t, _, _ in run.applied] == [6.0, 12.0, 18.0]
    assert [[grad.samples for grad in grads] for _, _, grads in run.applied] == [[4, 2]] * 3
    assert [grad.ends_s for grad in run.applied[0][2]] == [(1.0, 2.0, 3.0, 4.0), (3.0, 6.0)]
    assert {order.weights for _, order, _ in run.applied} == {(1 / 8, 1 / 8)}
    assert {fields["samples"] for _, kind, fields in run.notes if kind == "GaveUp"} == {2}
    bsp = HeapRun(DropCompute(micro_batches=4, threshold_s=1e9), job, [4, 12]).run()
    assert [t for t, _, _ in bsp.applied] == [12.0], (
        "negative control: without a threshold it takes as long as the slow one"
    )


def test_of_uneven_micro_batches_the_first_are_computed() -> None:
    """Algorithm 1 with five samples in four micro-batches: two in the first. Each worker begins one and loses three."""
    job = make_job(num_workers=2, global_batch_samples=10, max_time_s=1.0)
    run = HeapRun(DropCompute(micro_batches=4, threshold_s=1e-9), job, [1, 1]).run()
    assert [grad.samples for grad in run.applied[0][2]] == [2, 2]
    assert {fields["samples"] for _, kind, fields in run.notes if kind == "GaveUp"} == {3}


def test_the_mean_over_what_was_computed() -> None:
    """Departure from algorithm 1, whose divisor is fixed: 6 of 8 samples, each with 1/6."""
    job = make_job(num_workers=2, global_batch_samples=8, max_time_s=6.0)
    run = HeapRun(DropCompute(micro_batches=4, threshold_s=3.5, divide_by="computed"), job, [4, 12]).run()
    assert [order.weights for _, order, _ in run.applied] == [(1 / 6, 1 / 6)]


def test_dropped_samples_are_computed_later_if_that_is_wanted() -> None:
    """Algorithm 1 loses them, 2 of 8 in each of two updates; a compensation computes them again."""
    job = make_job(num_workers=2, num_samples=16, global_batch_samples=8, epochs=1, max_time_s=100.0)
    lossy, whole = (
        HeapRun(DropCompute(micro_batches=4, threshold_s=3.5, requeue=again), job, [4, 12]).run()
        for again in (False, True)
    )
    assert (lossy.core.shards.samples_applied, lossy.core.shards.samples_given_up) == (12, 4)
    assert (whole.core.shards.samples_applied, whole.core.shards.samples_given_up) == (16, 0)
    assert {fields["reason"] for _, kind, fields in whole.notes if kind == "Requeued"} == {CUT}


@pytest.mark.parametrize("seed", long_after(range(12), always=3))
def test_every_sample_is_applied_once_or_given_up(seed: int) -> None:
    """Beyond the paper, with losses, departures and rollbacks: what is applied and what is given up make three
    epochs."""
    job = uneven_job(4, seed)
    strategy = DropCompute(micro_batches=2, threshold_s=0.2)
    run = HeapRun(strategy, job, lambda worker, order: 0.3 + 0.2 * worker, faults("departures", seed, 4)).run()
    shards, used = run.core.shards, uses(run)
    assert run.core.status == "done"
    assert max(used.values()) == 1
    assert sum(used.values()) == shards.samples_applied
    assert shards.samples_given_up > 0
    assert shards.samples_applied + shards.samples_given_up == 3 * job.num_samples


# ---- BSP ------------------------------------------------------------------------------------------------------------


def stripped(run: VirtualRun) -> list[Any]:
    """Everything that was said, but for the times of micro-batches."""
    said = [line for line in run.lines if line["kind"] == "event"]
    for line in said:
        line["event"].get("grad", {}).pop("ends_s", None)
        for command in line["commands"]:
            command.pop("within_s", None)
            command.pop("requeue", None) if command["type"] == "Compute" else None
    return [(line["t"], line["event"], line["commands"]) for line in said]


@pytest.mark.parametrize("seed", long_after(range(6), always=2))
def test_without_a_threshold_it_is_bsp(seed: int) -> None:
    """Algorithm 1 with an infinite threshold, in worlds with jitter, delays, losses and rollbacks: the same events and
    commands at the same times to the bit, and the same parameters. With a threshold it is not."""
    bsp, never, cut = (
        VirtualRun(draw_world(4, seed), strategy)
        for strategy in (
            BSP(),
            DropCompute(micro_batches=1, threshold_s=1e9),
            DropCompute(micro_batches=2, threshold_s=0.3),
        )
    )
    assert stripped(never) == stripped(bsp)
    assert never.uses() == bsp.uses()
    assert stripped(cut) != stripped(bsp)


# ---- algorithm 2 ----------------------------------------------------------------------------------------------------


def test_the_effective_speedup_by_hand() -> None:
    """Algorithm 2: at 4 s the fast worker has 4 micro-batches and the slow one 1: 5/8 in 4 + 1 s instead of all in
    12 + 1 s. Where workers complete the micro-batch in hand, it is 6/8 in 6 + 1 s."""
    speedups, computed = effective_speedups(TWO, [2.0, 4.0, 12.0], finishes=False)
    assert speedups == pytest.approx([3 / 8 * 13 / 3 - 1 / 8 * 13 / 3, 5 / 8 * 13 / 5, 1.0])
    assert computed == pytest.approx([2 / 8, 5 / 8, 1.0])
    speedups, computed = effective_speedups(TWO, [0.0, 2.0, 4.0, 9.0], finishes=True)
    assert speedups == pytest.approx([2 / 8 * 13 / 4, 4 / 8 * 13 / 4, 6 / 8 * 13 / 7, 1.0])
    assert best_threshold(TWO, finishes=True) == pytest.approx((2.0, 13 / 8, 1 / 2))
    assert best_threshold(TWO, finishes=False) == pytest.approx((4.0, 13 / 8, 3 / 8))


@pytest.mark.parametrize("finishes", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_search_finds_what_brute_force_finds(seed: int, finishes: bool) -> None:
    """Algorithm 2: every threshold of a fine grid, by loops over rounds, workers and micro-batches; none is better."""
    rounds = profile(seed, workers=4, micro_batches=5, rounds=3)

    def by_loops(threshold_s: float) -> float:
        total = 0.0
        for ends_s, rest_s in rounds:
            slowest_s, stopped_s, count = max(ends[-1] for ends in ends_s), 0.0, 0
            for ends in ends_s:
                for begun_s, end_s in pairwise((0.0, *ends)):
                    if (begun_s if finishes else end_s) <= threshold_s:
                        count += 1
                        stopped_s = max(stopped_s, end_s) if finishes else min(threshold_s, slowest_s)
            stopped_s = stopped_s or min(threshold_s, slowest_s)
            total += count / (len(ends_s) * 5) * (slowest_s + rest_s) / (stopped_s + rest_s)
        return total / len(rounds)

    found = best_threshold(rounds, finishes=finishes)
    assert found.speedup == pytest.approx(by_loops(found.seconds))
    grid = np.linspace(1e-6, 1.1 * max(ends[-1] for one in rounds for ends in one.ends_s), 3000)
    assert found.speedup >= max(map(by_loops, grid)) - 1e-12
    assert found.speedup >= 1.0


@pytest.mark.parametrize(
    ("seed", "workers", "micro_batches", "speedup", "dropped"),
    [
        (0, 4, 8, 0.14266550553928337, 0.0625),
        (1, 8, 12, 0.18576764686007152, 0.1875),
        (2, 16, 12, 0.23013105854900417, 0.14583333333333334),
    ],
)
def test_the_published_code_finds_the_same(
    seed: int, workers: int, micro_batches: int, speedup: float, dropped: float
) -> None:
    """The published code's ``get_best_threshold`` of ``deepspeed-bert/run_pretraining.py`` on the same latencies,
    as it prints them; it tries 200 thresholds, and drops what ends at the threshold itself."""
    found = best_threshold(profile(seed, workers, micro_batches), finishes=False)
    assert (found.speedup - 1, found.dropped_frac) == pytest.approx((speedup, dropped), rel=1e-9)


def test_the_expected_speedup_of_gaussian_latencies() -> None:
    """Definition of the expected effective speed-up: micro-batches of mean mu and deviation sigma. A threshold tau
    leaves the sum over m of Phi((tau - m mu) / (sigma sqrt(m))) of M, the slowest of N workers takes M mu + sigma
    sqrt(M) times the expected maximum of N normal numbers, about (1 - g) Phi^-1(1 - 1/N) + g Phi^-1(1 - 1/(e N))
    with Euler's g."""
    workers, count, mu, sigma, rest_s, rounds = 64, 12, 0.45, 0.05, 0.5, 400
    latencies_s = np.random.default_rng(7).normal(mu, sigma, size=(rounds, workers, count))
    drawn = [Round(tuple(map(tuple, ends_s)), rest_s) for ends_s in latencies_s.cumsum(axis=2)]
    normal, euler = NormalDist(), 0.5772156649
    largest = (1 - euler) * normal.inv_cdf(1 - 1 / workers) + euler * normal.inv_cdf(1 - 1 / (np.e * workers))
    slowest_s = count * mu + sigma * count**0.5 * largest
    thresholds_s = np.linspace(4.5, 5.7, 13)
    part = [
        sum(normal.cdf((tau - m * mu) / (sigma * m**0.5)) for m in range(1, count + 1)) / count for tau in thresholds_s
    ]
    expected = np.array(part) * (slowest_s + rest_s) / (np.minimum(thresholds_s, slowest_s) + rest_s)
    speedups, computed = effective_speedups(drawn, thresholds_s, finishes=False)
    assert computed == pytest.approx(part, abs=2e-3)
    assert speedups == pytest.approx(expected, rel=5e-3)
    assert max(expected) > 1.02 > min(expected), "some of these thresholds help, and others do not"


def test_the_delays_of_its_code() -> None:
    """Published code, ``create_dist_lognormal``: lengths from 1 to 999 by the density of LogNormal(4, 1), over their
    mean. Moments of the law below L = 1,000 are exp(4 k + k k / 2) Phi(ln L - 4 - k) / Phi(ln L - 4). Jobs draw from
    quantiles."""
    values, chances = table.multipliers()
    below = [NormalDist().cdf(math.log(1000) - 4 - k) for k in range(3)]
    mean, square = math.exp(4.5) * below[1] / below[0], math.exp(10) * below[2] / below[0]
    assert values @ chances == pytest.approx(1.0, rel=1e-12)
    assert values[-1] / values[0] == pytest.approx(999.0)
    assert (values[-1], values**2 @ chances) == pytest.approx((999 / mean, square / mean**2), rel=0.01)
    lengths = np.loadtxt(ROOT / "injectors" / "traces" / "dropcompute_lengths.csv", skiprows=1)
    expected = 1 + np.searchsorted(chances.cumsum(), (np.arange(2000) + 0.5) / 2000)
    assert lengths.tolist() == expected.tolist()


def test_the_closed_form_of_an_experiment_is_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definition of the expected effective speed-up. Of delays of mean 1 that are nearly normal in a sum of twelve it
    has the same iteration, threshold and speed-up. The delays of its code are not."""
    means = [np.mean([table.threshold_by_drawing(64, seed) for seed in range(3)], axis=0)]
    monkeypatch.setattr(table, "multipliers", lambda: (np.array([0.4, 1.6]), np.array([0.5, 0.5])))
    means.append(np.mean([table.threshold_by_drawing(64, seed) for seed in range(3)], axis=0))
    closed = table.threshold_by_closed_form(64, 0)
    assert means[1] == pytest.approx(closed, rel=0.02, abs=0.01)
    assert means[0] != pytest.approx(closed, rel=0.02, abs=0.01), "negative control: other delays"


def test_of_many_ends_some_are_tried() -> None:
    """Departure from algorithm 2, which tries all: 2,000 of 7,200 ends lose less than a thousandth."""
    rounds = profile(3, workers=60, micro_batches=12, rounds=10)
    found, exact = best_threshold(rounds, finishes=True), 0.0
    ends_s = sorted(end for one in rounds for ends in one.ends_s for end in ends)
    assert len(ends_s) > 2 * MOST_THRESHOLDS
    exact = float(effective_speedups(rounds, ends_s, finishes=True)[0].max())
    assert exact * 0.999 < found.speedup <= exact


def test_the_threshold_is_found_once_and_holds() -> None:
    """Algorithm 2: three iterations are left out and four profiled; the search is that of the reported latencies."""
    strategy = DropCompute(micro_batches=4, warmup_iters=3, profile_iters=4)
    job = make_job(num_workers=2, global_batch_samples=8, max_time_s=150.0)
    run = HeapRun(strategy, job, [4, 12]).run()
    computes = [one for line in run.lines for one in line.commands if isinstance(one, Compute)]
    within_s = [one.within_s for one in computes[::2]]
    assert within_s[9:] == [2.0] * len(within_s[9:])
    assert all(limit_s is not None and limit_s > 1e9 for limit_s in within_s[:9])
    times_s = [t for t, _, _ in run.applied]
    assert [after - before for before, after in pairwise(times_s)] == [12.0] * 8 + [3.0] * (len(times_s) - 9)
    state = strategy.log_state()
    rounds = [Round(((1.0, 2.0, 3.0, 4.0), (3.0, 6.0, 9.0, 12.0)), 0.0)] * 4
    assert state["expected_speedup"] == pytest.approx(best_threshold(rounds, finishes=True).speedup)


def test_an_iteration_with_a_loss_is_not_profiled() -> None:
    """Beyond the paper: a restart would count as communication. Two iterations are needed; the loss costs the one
    that it is in and the next, whose beginning is not known."""
    job = make_job(num_workers=2, global_batch_samples=4)
    rig = Rig(DropCompute(micro_batches=2, warmup_iters=0, profile_iters=2), job).start()
    for round_number in range(5):
        if round_number == 2:
            rig.lose(0)
            rig.join(0)
        rig.arrive(0, compute_s=1.0)
        rig.arrive(1, compute_s=3.0)
        assert "profiled" in rig.core.strategy.log_state()
    rig.arrive(0, compute_s=1.0)
    assert "threshold_s" in rig.core.strategy.log_state()


def test_more_micro_batches_than_samples_are_refused() -> None:
    """Beyond the paper: a micro-batch has a sample."""
    with pytest.raises(ValueError, match=r"micro_batches=5: must be at most the samples of the smallest batch \(4\)"):
        DropCompute(micro_batches=5).validate_batch(4, 18)
