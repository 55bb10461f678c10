"""The sleep actuator against the definition: sums over the windows that are open."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injectors.plan import Disturbance, Plan, build_plan
from injectors.sleep import SleepActuator

TARGETS = ("worker:0", "worker:1", "server:0")
NUMBERS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 1.5, 2.0, 7.0])
WINDOWS = st.builds(
    lambda start_s, length_s, target, kind, magnitude: Disturbance(
        start_s=start_s, end_s=start_s + length_s, target=target, kind=kind, magnitude=magnitude
    ),
    NUMBERS,
    NUMBERS,
    st.sampled_from(TARGETS),
    st.sampled_from(["delay", "slowdown"]),
    st.sampled_from([0.1, 0.2, 0.3, 0.7, 1e9]),
)


def plan_of(*windows: Disturbance) -> Plan:
    return Plan(pattern="p", seed=0, horizon_s=100.0, disturbances=windows)


def open_at(plan: Plan, t: float, *, closed: bool = False) -> list[int]:
    """By definition; ``closed`` is the wrong reading, in which a window still holds at its end."""
    return [i for i, one in enumerate(plan.disturbances) if one.start_s <= t < one.end_s or (closed and t == one.end_s)]


def expected(plan: Plan, target: str, t: float, *, closed: bool = False) -> tuple[float, float]:
    sums = {"delay": Fraction(0), "slowdown": Fraction(0)}
    for one in (plan.disturbances[i] for i in open_at(plan, t, closed=closed)):
        if one.target == target:
            sums[one.kind] += Fraction(one.magnitude)
    return float(sums["delay"]), float(sums["slowdown"])


def moments(plan: Plan) -> list[float]:
    """Every edge, just before and just after, and outside of all."""
    edges = {time for one in plan.disturbances for time in (one.start_s, one.end_s)}
    around = {math.nextafter(edge, direction) for edge in edges for direction in (-math.inf, math.inf)}
    return sorted({-1.0, 1e6, *edges, *around})


def check(plan: Plan, order: Callable[[list[float]], list[float]], *, closed: bool = False) -> None:
    actuator = SleepActuator(plan)
    edges = {time for one in plan.disturbances if one.start_s < one.end_s for time in (one.start_s, one.end_s)}
    for t in order(moments(plan)):
        assert actuator.active(t) == tuple(open_at(plan, t, closed=closed))
        for target in TARGETS:
            assert actuator.delay_for(target, t) == expected(plan, target, t, closed=closed)
        assert actuator.next_change(t) == min((edge for edge in edges if edge > t), default=math.inf)


@given(st.lists(WINDOWS, max_size=12), st.randoms(use_true_random=False))
def test_it_answers_by_definition_whatever_the_order(windows: list[Disturbance], rng: random.Random) -> None:
    plan = plan_of(*windows)
    check(plan, list)
    check(plan, lambda times: times[::-1])
    check(plan, lambda times: rng.sample(times, len(times)))


def test_closed_windows_would_be_caught() -> None:
    plan = plan_of(Disturbance(start_s=1.0, end_s=2.0, target="worker:0", kind="delay", magnitude=0.1))
    check(plan, list)
    with pytest.raises(AssertionError):
        check(plan, list, closed=True)


def test_windows_are_half_open_and_add_up() -> None:
    actuator = SleepActuator(
        plan_of(
            Disturbance(start_s=1.0, end_s=2.0, target="worker:0", kind="delay", magnitude=0.1),
            Disturbance(start_s=1.5, end_s=3.0, target="worker:0", kind="delay", magnitude=0.2),
            Disturbance(start_s=1.5, end_s=2.5, target="worker:0", kind="slowdown", magnitude=2.0),
        )
    )
    rows = [(t, *actuator.delay_for("worker:0", t), actuator.active(t)) for t in (0.9, 1.0, 1.5, 2.0, 2.5, 3.0)]
    assert rows == [
        (0.9, 0.0, 0.0, ()),
        (1.0, 0.1, 0.0, (0,)),
        (1.5, pytest.approx(0.3), 2.0, (0, 1, 2)),
        (2.0, 0.2, 2.0, (1, 2)),
        (2.5, 0.2, 0.0, (1,)),
        (3.0, 0.0, 0.0, ()),
    ]
    changes = [0.0]
    while (change := actuator.next_change(changes[-1])) < math.inf:
        changes.append(change)
    assert changes == [0.0, 1.0, 1.5, 2.0, 2.5, 3.0]


def test_nothing_is_left_behind_when_windows_close() -> None:
    """Floating-point sums would leave 1.4e-17 of 0.1 + 0.2 - 0.2 - 0.1."""
    windows = [
        Disturbance(start_s=0.0, end_s=end_s, target="worker:0", kind="delay", magnitude=magnitude)
        for magnitude, end_s in ((0.1, 2.0), (0.2, 1.0), (1e16, 1.5))
    ]
    actuator = SleepActuator(plan_of(*windows))
    assert [actuator.delay_for("worker:0", t)[0] for t in (1.5, 2.0)] == [0.1, 0.0]
    assert 1e16 + 0.1 - 1e16 != 0.1


def test_targets_that_nothing_disturbs() -> None:
    actuator = SleepActuator(build_plan("none", 0, 10.0, ()))
    assert actuator.delay_for("worker:0", 1.0) == (0.0, 0.0)
    assert actuator.active(1.0) == ()
    assert actuator.next_change(0.0) == math.inf


def test_a_hundred_thousand_windows_of_a_thousand_workers() -> None:
    """100 windows each, half of them overlapping; the pytest time-out is what fails if this were quadratic."""
    windows = [
        Disturbance(start_s=0.1 * i, end_s=0.1 * i + 15.0, target=f"worker:{i % 1000}", kind="delay", magnitude=0.1)
        for i in range(100_000)
    ]
    actuator = SleepActuator(plan_of(*windows))
    assert actuator.delay_for("worker:7", 500.8) == (0.1, 0.0)
    assert actuator.delay_for("worker:7", 520.0) == (0.0, 0.0)
    assert [len(actuator.active(t)) for t in (500.05, 10_020.0, 0.0)] == [150, 0, 1]
    assert actuator.next_change(10_014.0) == pytest.approx(10_014.1)
