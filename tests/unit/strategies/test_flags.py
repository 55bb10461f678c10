"""Who is slow, and how a round is divided."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.antdt.detector import CENTERS, StragglerDetector, bounds, slow, still_slow
from strategies.parts.load.allocation import round_sizes

Seconds = st.dictionaries(st.integers(0, 50), st.floats(0.01, 100), min_size=2, max_size=12)


@given(seconds=Seconds)
def test_the_median_is_that_of_the_others(seconds: dict[int, float]) -> None:
    found = bounds(seconds, 2.0, "median_others")
    for node in seconds:
        others = [taken for other, taken in seconds.items() if other != node]
        assert found[node] == pytest.approx(2.0 * median(others))


def test_the_slowest_comes_first_and_of_two_alike_the_lower_number() -> None:
    assert slow({3: 9.0, 1: 8.0, 2: 9.0, 0: 1.0, 4: 1.0, 5: 1.0}, 1.5) == [2, 3, 1]


def test_who_takes_exactly_so_many_times_as_long_is_slow() -> None:
    assert slow({0: 2.0, 1: 2.0, 2: 2.0, 3: 3.0}, 1.5, "median_others") == [3]
    assert slow({0: 2.0, 1: 2.0, 2: 2.0, 3: 2.9}, 1.5, "median_others") == []


@given(seconds=Seconds, ratio=st.sampled_from([1.2, 1.5, 3.0]), center=st.sampled_from(CENTERS), share=st.floats(0, 1))
def test_who_would_be_slow_with_another_time_is_asked_of_each_by_itself(
    seconds: dict[int, float], ratio: float, center: str, share: float
) -> None:
    shorter = {node: taken * share for node, taken in seconds.items() if node % 2}
    expected = {node for node, own_s in shorter.items() if node in slow({**seconds, node: own_s}, ratio, center)}
    assert still_slow(shorter, seconds, ratio, center) == expected


def test_a_ratio_that_nobody_can_reach_is_refused() -> None:
    StragglerDetector(slowness_ratio=1.5).validate(2)
    StragglerDetector(slowness_ratio=4.0, center="median_others").validate(2)
    with pytest.raises(ValueError, match=r"^slowness_ratio=2.0: must be less than the number of workers \(2\)"):
        StragglerDetector(slowness_ratio=2.0).validate(2)
    with pytest.raises(ValueError, match=r"^center=median_others: needs 2 workers or more$"):
        StragglerDetector(slowness_ratio=1.5, center="median_others").validate(1)


def test_sizes_are_even_as_long_as_nothing_is_known() -> None:
    assert round_sizes(10, (0, 2, 5), {}) == {0: 4, 2: 3, 5: 3}
    assert round_sizes(10, (0, 2, 5), {7: 3.0}) == {0: 4, 2: 3, 5: 3}, "worker 7 has left"
    assert round_sizes(10, (0, 2, 5), {0: 9.0}, (0, 2, 5)) == {0: 4, 2: 3, 5: 3}, "all are new"


def test_a_worker_without_a_speed_is_as_fast_as_the_median() -> None:
    assert round_sizes(240, (0, 1, 2, 3), {0: 10.0, 1: 20.0, 2: 30.0}) == {0: 30, 1: 60, 2: 90, 3: 60}


def test_a_newcomer_begins_with_an_even_share_and_the_others_share_the_rest_by_speed() -> None:
    assert round_sizes(256, (0, 1, 2, 3), {0: 100.0, 2: 100.0, 3: 50.0}, {1}) == {0: 77, 1: 64, 2: 77, 3: 38}


@given(
    total=st.integers(0, 3000),
    speeds=st.lists(st.one_of(st.none(), st.floats(0.001, 1e5)), min_size=1, max_size=12),
    new=st.sets(st.integers(0, 11)),
)
def test_sizes_sum_to_the_batch_whoever_is_there(total: int, speeds: list[float | None], new: set[int]) -> None:
    known = {worker: speed for worker, speed in enumerate(speeds) if speed is not None}
    sizes = round_sizes(total, range(len(speeds)), known, new & set(range(len(speeds))))
    assert sum(sizes.values()) == total
    assert min(sizes.values()) >= (1 if total >= len(speeds) else 0)
