"""Or et al.'s autoscaling: after "Resource elasticity in distributed deep learning", MLSys 2020, its scaling heuristic
and its replacement of stragglers; threshold and steps of the comparison in DLRover section 6.3."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.elastic.or_autoscale.autoscaling import Autoscaler, Autoscaling, SlowWorkers, marginal_gain


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
            scaler.resized(size)
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
