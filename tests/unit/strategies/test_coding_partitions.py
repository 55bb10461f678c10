"""How many parts for whom: worked rows, the promises of the allocation, and what has no answer."""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.gradient_coding.partitions import counts, default_parts, held_by_time, quotas, support


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """(throughputs, k, s), throughputs often equal or far apart."""
    throughputs = draw(st.lists(st.sampled_from([1, 2, 3, 4, 8, 12, 16, 100, 1000]), min_size=1, max_size=12))
    return throughputs, draw(st.integers(1, 60)), draw(st.integers(0, len(throughputs) - 1))


def test_the_worked_cluster() -> None:
    """Throughputs 1, 2, 3, 4, 4 and one straggler: with 7 parts everything is whole."""
    held = counts([1, 2, 3, 4, 4], k=7, s=1)
    assert held == [1, 2, 3, 4, 4]
    parts = [set(np.flatnonzero(row)) for row in support(held, 7)]
    assert parts == [{0}, {1, 2}, {3, 4, 5}, {6, 0, 1, 2}, {3, 4, 5, 6}]


@pytest.mark.parametrize(
    ("throughputs", "k", "s", "held"),
    [
        ([1, 1, 10], 6, 1, [3, 3, 6]),
        ([1, 1, 10, 10], 6, 1, [1, 1, 5, 5]),
        ([1, 1, 100, 100], 6, 2, [3, 3, 6, 6]),
        ([1, 1, 1], 4, 0, [2, 1, 1]),
        ([1, 1, 1], 4, 1, [3, 3, 2]),
        ([1, 1, 1], 4, 2, [4, 4, 4]),
        ([1, 1, 2, 2, 2, 4, 4], 8, 2, [2, 1, 3, 3, 3, 6, 6]),
        ([7], 3, 0, [3]),
    ],
)
def test_whoever_has_everything_leaves_the_rest_to_the_others(
    throughputs: list[float], k: int, s: int, held: list[int]
) -> None:
    """Capped at k first, then the largest remainders, the lower id first."""
    assert counts(throughputs, k, s) == held


@given(clusters())
def test_every_part_has_one_holder_more_than_stragglers(cluster: tuple[list[int], int, int]) -> None:
    throughputs, k, s = cluster
    held = counts(throughputs, k, s)
    mask = support(held, k)
    assert (mask.sum(axis=0) == s + 1).all()
    assert [int(count) for count in mask.sum(axis=1)] == held


@given(clusters())
def test_nobody_is_a_whole_part_away_from_his_quota(cluster: tuple[list[int], int, int]) -> None:
    throughputs, k, s = cluster
    wanted = quotas(throughputs, k, s)
    assert sum(wanted) == pytest.approx(k * (s + 1))
    for count, quota in zip(counts(throughputs, k, s), wanted, strict=True):
        assert 0 <= count <= k
        assert abs(count - quota) < 1 - 1e-9


@given(clusters(), st.sampled_from([0.25, 4.0, 2.0**900, 2.0**-900]))
def test_only_the_ratios_of_the_throughputs_matter(cluster: tuple[list[int], int, int], factor: float) -> None:
    throughputs, k, s = cluster
    assert counts([throughput * factor for throughput in throughputs], k, s) == counts(throughputs, k, s)


def test_throughputs_that_floats_cannot_hold_exactly() -> None:
    """0.1 + 0.2 is not 0.3, and still nothing is rounded the wrong way."""
    for k in range(1, 50):
        assert counts([0.1, 0.2, 0.3, 0.4, 0.4], 7 * k, 1) == [k, 2 * k, 3 * k, 4 * k, 4 * k]


@pytest.mark.parametrize(
    ("throughputs", "s", "k"),
    [
        ([1, 2, 3, 4, 4], 1, 7),
        ([1, 1, 10], 1, 2),
        ([5, 5, 5, 5, 5, 5], 2, 2),
        ([5, 5, 5, 5], 3, 1),
        ([0.1, 0.2, 0.3], 0, 6),
        ([1, sqrt(2), sqrt(3)], 1, 12),
    ],
)
def test_the_fewest_parts_that_suit_or_four_per_worker(throughputs: list[float], s: int, k: int) -> None:
    assert default_parts(throughputs, s) == k


@pytest.mark.parametrize(
    ("throughputs", "k", "s", "why"),
    [
        ([1, 0, 1], 4, 1, "throughput 0 of worker 1: must be positive"),
        ([1, 1, -2.0], 4, 1, "throughput -2.0 of worker 2: must be positive"),
        ([nan, 1], 4, 1, "throughput nan of worker 0: must be positive"),
        ([1, inf], 4, 1, "throughput inf of worker 1: must be positive"),
        ([1, 1], 4, 2, "s=2: must be below the number of workers, 2"),
        ([1, 1], 4, -1, "s=-1: must be a whole number, 0 or more"),
        ([1, 1], 4, 0.5, "s=0.5: must be a whole number"),
        ([1, 1], 0, 1, "k=0: must be a whole number, 1 or more"),
        ([], 4, 0, "s=0: must be below the number of workers, 0"),
    ],
)
def test_what_has_no_answer_is_refused_by_name(throughputs: list[float], k: int, s: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        counts(throughputs, k, s)


def test_a_worker_however_slow_has_a_part_where_there_are_enough() -> None:
    assert held_by_time([lambda n: float(n), lambda n: 1000.0 * n], 4, 0) == [3, 1]


def test_up_to_eight_parts_per_worker_make_all_quotas_whole() -> None:
    """Speeds of 1 and 10: eleven parts, more than four per worker."""
    assert default_parts([1.0, 10.0], 0) == 11
