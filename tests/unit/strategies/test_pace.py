"""Speeds at equal work: a base and a time per sample, from the times of batches that have changed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.antdt.adjust_bs import speeds_of
from strategies.antdt.detector import MOST_BASE, Base, fit_base
from strategies.parts.load.allocation import round_sizes, slowest_s


@given(
    st.lists(st.tuples(st.floats(1, 100), st.floats(0.01, 10)), min_size=2, max_size=20, unique_by=lambda pair: pair[0])
)
def test_the_base_is_that_of_numpys_least_squares(records: list[tuple[float, float]]) -> None:
    sizes, seconds = zip(*records, strict=True)
    found = fit_base(records)
    if max(sizes) < 1.1 * min(sizes):
        assert found is None
        return
    slope, intercept = np.polyfit(sizes, seconds, 1)
    if slope > 1e-6:
        most = MOST_BASE * float(np.mean(sizes))
        assert found == pytest.approx(min(most, max(0.0, intercept / slope)), rel=1e-4, abs=1e-4)


def test_a_time_that_does_not_depend_on_the_batch_is_nearly_all_base() -> None:
    assert fit_base([(10.0, 1.0), (20.0, 1.0)]) == MOST_BASE * 15.0


def test_stragglers_are_asked_only_where_there_is_nobody_else() -> None:
    """A straggler that recovers while its batch shrinks seems to have no base at all."""
    misleading, right = [(32.0, 0.12), (13.0, 0.036)], [(32.0, 0.06), (38.0, 0.0675)]
    base = Base()
    assert base.samples == 0.0
    base.learn({1: misleading}, stragglers=[1])
    assert base.samples == 0.0
    base.learn({0: right, 1: misleading, 2: [(32.0, 0.06)]}, stragglers=[1])
    assert base.samples == pytest.approx(16.0)


def test_noise_is_no_difference() -> None:
    """Whoever is within three standard errors of the median counts as fast as it, and nobody else means even sizes."""
    noisy = {worker: [1.0, 1.3, 0.7, 1.1 + worker / 5] for worker in range(4)}
    assert speeds_of(noisy) == {}
    speeds = speeds_of({**noisy, 4: [2.0] * 4})
    assert speeds[4] == 0.5
    assert len({speeds[worker] for worker in range(4)}) == 1
    assert speeds_of({}) == {}


def test_sizes_with_a_base_make_all_end_at_once() -> None:
    """Worker 1 three times as slow, 128 samples, a base of 16: 3 (16 + b) = 16 + b' gives 3.2 and 41.6."""
    sizes = round_sizes(128, range(4), {0: 1.0, 1: 1 / 3, 2: 1.0, 3: 1.0}, base_samples=16.0)
    assert sizes == {0: 42, 1: 3, 2: 42, 3: 41}
    assert slowest_s(sizes, {0: 1.0, 1: 1 / 3}, 16.0) == 58.0


@given(st.lists(st.integers(1, 60), min_size=2, max_size=6), st.lists(st.floats(0.1, 10), min_size=6, max_size=6))
def test_sizes_that_return_never_leave_the_way_to_the_even_split(now: list[int], speeds: list[float]) -> None:
    workers, total = range(len(now)), sum(now)
    even = round_sizes(total, workers, {})
    given_s = dict(zip(workers, speeds, strict=False))
    back = round_sizes(total, workers, given_s, returning=dict(zip(workers, now, strict=True)))
    assert sum(back.values()) == total
    for worker in workers:
        low, high = sorted((now[worker], even[worker]))
        assert low <= back[worker] <= high
