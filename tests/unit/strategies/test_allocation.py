"""The exact min-max split against worked rows, brute force and a MILP solver."""

from __future__ import annotations

from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from strategies.parts.load.allocation import relaxed, split_by_time, split_min_max

High = int | None


def slowest(sizes: list[int], speeds: list[float]) -> float:
    return max(size / speed for size, speed in zip(sizes, speeds, strict=True))


@pytest.mark.parametrize(
    ("speeds", "total", "bounds", "sizes", "value"),
    [
        ([100, 90, 60, 30], 256, (0, None), [92, 82, 55, 27], 0.92),
        ([100, 100, 100, 2], 256, (8, 96), [83, 83, 82, 8], 4.0),
    ],
)
def test_worked_rows(speeds: list[float], total: int, bounds: tuple[int, High], sizes: list[int], value: float) -> None:
    low, high = bounds
    found = split_min_max(total, speeds, [low] * len(speeds), [high] * len(speeds))
    assert found == sizes
    assert slowest(found, speeds) == pytest.approx(value)


@st.composite
def instances(draw: st.DrawFn, most: int = 4, largest: int = 12) -> tuple[int, list[float], list[int], list[High]]:
    """(total, speeds, lows, highs) that have a solution; speeds are often equal or multiples of each other."""
    count = draw(st.integers(1, most))
    speeds = draw(st.lists(st.one_of(st.integers(1, 20), st.floats(0.01, 100)), min_size=count, max_size=count))
    lows = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    rooms = draw(st.lists(st.one_of(st.none(), st.integers(0, largest)), min_size=count, max_size=count))
    highs = [None if room is None else low + room for low, room in zip(lows, rooms, strict=True)]
    top = sum(largest if high is None else high for high in highs)
    total = draw(st.integers(sum(lows), max(top, sum(lows))))
    return total, [float(speed) for speed in speeds], lows, highs


def brute_force(total: int, speeds: list[float], lows: list[int], highs: list[High]) -> float:
    ranges = [range(low, (total if high is None else high) + 1) for low, high in zip(lows, highs, strict=True)]
    lawful = (list(sizes) for sizes in product(*ranges) if sum(sizes) == total)
    return min((slowest(sizes, speeds) for sizes in lawful), default=inf)


@given(instances(most=3))
def test_nothing_is_better(instance: tuple[int, list[float], list[int], list[High]]) -> None:
    total, speeds, lows, highs = instance
    sizes = split_min_max(total, speeds, lows, highs)
    assert sum(sizes) == total
    assert all(
        low <= size <= (inf if high is None else high) for low, size, high in zip(lows, sizes, highs, strict=True)
    )
    assert slowest(sizes, speeds) == brute_force(total, speeds, lows, highs)


@given(instances(most=12, largest=200))
def test_the_seed_saves_time_and_changes_nothing(instance: tuple[int, list[float], list[int], list[High]]) -> None:
    """The greedy from the lower bounds on, sample by sample, gives the very same sizes."""
    total, speeds, lows, highs = instance
    times = [lambda samples, speed=speed: samples / speed for speed in speeds]
    assert split_min_max(total, speeds, lows, highs) == split_by_time(total, times, lows, highs)


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_a_milp_solver_agrees(seed: int) -> None:
    """minimise z subject to b_i <= v_i z, sum b_i = B and the bounds, b whole: HiGHS finds nothing smaller."""
    chance = np.random.default_rng(seed)
    count, total = int(chance.integers(2, 12)), int(chance.integers(50, 2000))
    speeds = chance.uniform(1, 100, count)
    lows = [int(low) for low in chance.integers(0, total // (2 * count), count)]
    highs = [int(high) for high in lows + chance.integers(total // count + 1, total, count)]
    rows = np.hstack([np.diag(1 / speeds), -np.ones((count, 1))])
    sums = np.append(np.ones(count), 0.0)
    solved = milp(
        c=np.append(np.zeros(count), 1.0),
        constraints=[LinearConstraint(rows, ub=0), LinearConstraint(sums[None, :], lb=total, ub=total)],
        bounds=Bounds(np.append(lows, 0.0), np.append(np.asarray(highs, dtype=float), np.inf)),
        integrality=np.append(np.ones(count), 0),
        options={"mip_rel_gap": 0.0},
    )
    assert solved.success
    sizes = split_min_max(total, list(speeds), lows, list(highs))
    assert slowest(sizes, list(speeds)) == pytest.approx(solved.fun, rel=1e-6)


@given(st.lists(st.lists(st.integers(0, 4), min_size=8, max_size=8), min_size=1, max_size=3), st.integers(0, 7))
def test_any_time_that_does_not_fall(steps: list[list[int]], total: int) -> None:
    """F_i with flat parts and jumps, as a device below and above its saturation; sums of random steps."""
    curves = [[sum(step[: samples + 1]) for samples in range(8)] for step in steps]
    times = [lambda samples, curve=curve: float(curve[samples]) for curve in curves]
    sizes = split_by_time(total, times, [0] * len(steps), [7] * len(steps))
    best = min(
        max(curve[size] for curve, size in zip(curves, tried, strict=True))
        for tried in product(range(8), repeat=len(steps))
        if sum(tried) == total
    )
    assert sum(sizes) == total
    assert max(curve[size] for curve, size in zip(curves, sizes, strict=True)) == best


@pytest.mark.parametrize(
    ("total", "speeds", "lows", "highs", "why"),
    [
        (5, [1, 1], [3, 3], [None, None], "lower bounds sum to 6 samples, more than the 5"),
        (9, [1, 1], [0, 0], [4, 4], "upper bounds sum to 8 samples, less than the 9"),
        (9, [1, 1], [0, 5], [None, 4], "worker 1: lower bound of 5 samples above its upper bound of 4"),
        (9, [1, 0], [0, 0], [None, None], "speed 0 of worker 1: must be positive"),
    ],
)
def test_the_bound_in_the_way_is_named(
    total: int, speeds: list[float], lows: list[int], highs: list[High], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        split_min_max(total, speeds, lows, highs)


@pytest.mark.parametrize(
    ("total", "lows", "highs", "expected"),
    [
        (10, [8, 4, 1], [None] * 3, ([5, 4, 1], [None] * 3)),
        (2, [4, 4, 4], [None] * 3, ([0, 0, 0], [None] * 3)),
        (12, [1, 1], [4, 2], ([1, 1], [8, 4])),
        (10, [4, 3, 3], [None] * 3, ([4, 3, 3], [None] * 3)),
    ],
)
def test_bounds_give_way_lower_ones_first(
    total: int, lows: list[int], highs: list[High], expected: tuple[list[int], list[High]]
) -> None:
    assert relaxed(total, lows, highs) == expected


@given(st.integers(1, 500), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=8))
def test_whatever_gave_way_there_is_a_split(total: int, bounds: list[tuple[int, int]]) -> None:
    lows, highs = [low for low, _ in bounds], [low + room for low, room in bounds]
    sizes = split_min_max(total, [1.0] * len(bounds), *relaxed(total, lows, highs))
    assert sum(sizes) == total


def test_a_thousand_workers_take_no_more_steps_than_workers() -> None:
    """From the seed on the greedy hands out at most one sample per worker and bound, however large the batch."""
    chance = np.random.default_rng(0)
    speeds = [float(speed) for speed in chance.uniform(1, 100, 1000)]
    calls = 0

    class Counted(float):
        def __rtruediv__(self, other: float) -> float:
            nonlocal calls
            calls += 1
            return other / float(self)

    sizes = split_min_max(4_000_000, [Counted(speed) for speed in speeds], [1] * 1000, [None] * 1000)
    assert sum(sizes) == 4_000_000
    assert calls <= 3000
