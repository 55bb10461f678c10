"""The schedule against the definition: what the windows that are open come to, by kind."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from injectors.plan import RULES, Disturbance, Kind, Plan, build_plan
from injectors.schedule import Change, Schedule
from tests.support.examples import examples

TARGETS = ("worker:0", "worker:1", "server:0")
KINDS: tuple[Kind, ...] = get_args(Kind)
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
ANY_WINDOWS = st.builds(
    lambda start_s, length_s, target, kind_and_magnitude: Disturbance(
        start_s=start_s,
        end_s=start_s + length_s,
        target=target,
        kind=kind_and_magnitude[0],
        magnitude=kind_and_magnitude[1],
    ),
    NUMBERS,
    NUMBERS,
    st.sampled_from(TARGETS[:2]),
    st.sampled_from(
        [(kind, magnitude) for kind in KINDS for magnitude in ((1.0,) if RULES[kind].neutral == 0 else (0.1, 0.5, 0.9))]
        + [("delay", 0.1), ("delay", 0.2), ("slowdown", 0.3)]
    ),
)


def plan_of(*windows: Disturbance) -> Plan:
    return Plan(pattern="p", seed=0, horizon_s=100.0, disturbances=windows)


def open_at(plan: Plan, t: float, *, closed: bool = False) -> list[int]:
    """By definition; ``closed`` is the wrong reading, in which a window still holds at its end."""
    return [i for i, one in enumerate(plan.disturbances) if one.start_s <= t < one.end_s or (closed and t == one.end_s)]


def expected(plan: Plan, target: str, t: float, *, closed: bool = False) -> tuple[float, float]:
    sums = {"delay": Fraction(0), "slowdown": Fraction(0)}
    for one in (plan.disturbances[i] for i in open_at(plan, t, closed=closed)):
        if one.target == target and one.kind in sums:
            sums[one.kind] += Fraction(one.magnitude)
    return float(sums["delay"]), float(sums["slowdown"])


def moments(plan: Plan) -> list[float]:
    """Every edge, just before and just after, and outside of all."""
    edges = {time for one in plan.disturbances for time in (one.start_s, one.end_s)}
    around = {math.nextafter(edge, direction) for edge in edges for direction in (-math.inf, math.inf)}
    return sorted({-1.0, 1e6, *edges, *around})


def check(plan: Plan, order: Callable[[list[float]], list[float]], *, closed: bool = False) -> None:
    actuator = Schedule(plan)
    edges = {time for one in plan.disturbances if one.start_s < one.end_s for time in (one.start_s, one.end_s)}
    for t in order(moments(plan)):
        assert actuator.active(t) == tuple(open_at(plan, t, closed=closed))
        for target in TARGETS:
            assert actuator.delay_for(target, t) == expected(plan, target, t, closed=closed)
        assert actuator.next_change(t) == min((edge for edge in edges if edge > t), default=math.inf)


@settings(max_examples=25)
@given(st.lists(WINDOWS, max_size=8), st.randoms(use_true_random=False))
def test_it_answers_by_definition_whatever_the_order(windows: list[Disturbance], rng: random.Random) -> None:
    plan = plan_of(*windows)
    check(plan, list)
    check(plan, lambda times: times[::-1])
    check(plan, lambda times: rng.sample(times, len(times)))


def level_by_definition(plan: Plan, target: str, kind: Kind, t: float) -> float:
    """As the documentation words it, with the kinds written out."""
    found = [
        one for one in (plan.disturbances[i] for i in open_at(plan, t)) if (one.target, one.kind) == (target, kind)
    ]
    match kind:
        case "delay" | "slowdown":
            return float(sum(Fraction(one.magnitude) for one in found))
        case "cpu" | "gpu" | "bandwidth":
            return min((one.magnitude for one in found), default=1.0)
        case "cut" | "pause" | "kill" | "join" | "leave":
            return 1.0 if found else 0.0


@examples(20)
@given(st.lists(ANY_WINDOWS, max_size=14))
def test_levels_are_as_defined(windows: list[Disturbance]) -> None:
    plan = plan_of(*windows)
    schedule = Schedule(plan)
    for t, target, kind in product(moments(plan), TARGETS, KINDS):
        assert schedule.level(target, kind, t) == level_by_definition(plan, target, kind, t)
    for t, target in product(moments(plan), TARGETS):
        assert schedule.delay_for(target, t) == expected(plan, target, t)
    assert schedule.kinds == {one.kind for one in windows if one.start_s < one.end_s}


def check_changes(plan: Plan, changes: tuple[Change, ...], kinds: tuple[Kind, ...]) -> None:
    """They tell the whole story: followed from the neutral levels they give every level, and none is idle."""
    assert changes == tuple(sorted(changes))
    for target, kind in product(TARGETS, kinds):
        own = [one for one in changes if (one.target, one.kind) == (target, kind)]
        levels = [RULES[kind].neutral, *(one.level for one in own)]
        assert all(before != after for before, after in pairwise(levels))
        for t in moments(plan):
            now = sum(one.t <= t for one in own)
            assert levels[now] == level_by_definition(plan, target, kind, t)


@examples(20)
@given(st.lists(ANY_WINDOWS, max_size=14), st.sets(st.sampled_from(KINDS)))
def test_changes_tell_the_whole_story(windows: list[Disturbance], kinds: set[Kind]) -> None:
    plan = plan_of(*windows)
    changes = Schedule(plan).changes(kinds)
    assert {one.kind for one in changes} == kinds & Schedule(plan).kinds
    check_changes(plan, changes, tuple(kinds))


def cpu(start_s: float, end_s: float, left_frac: float) -> Disturbance:
    return Disturbance(start_s=start_s, end_s=end_s, target="worker:0", kind="cpu", magnitude=left_frac)


def of_machine(
    start_s: float, end_s: float, kind: Kind = "delay", magnitude: float = 1.0, worker: int = 0
) -> Disturbance:
    about = {"target": f"worker:{worker}", "kind": kind, "magnitude": magnitude}
    return Disturbance(start_s=start_s, end_s=end_s, of_machine=True, **about)


def test_seconds_of_a_loader_are_part_of_all_delays_of_their_worker() -> None:
    windows = [
        Disturbance(start_s=start_s, end_s=9.0, target=target, kind="delay", magnitude=0.25, of_loader=of_loader)
        for start_s, target, of_loader in ((1.0, "worker:0", True), (2.0, "worker:0", False), (1.0, "worker:1", False))
    ]
    schedule = Schedule(build_plan("test", 0, 100.0, windows))
    found = [(schedule.delay_for("worker:0", t)[0], schedule.loader_for("worker:0", t)) for t in (0.0, 1.0, 2.0, 9.0)]
    assert found == [(0.0, 0.0), (0.25, 0.25), (0.5, 0.25), (0.0, 0.0)]
    assert schedule.loader_for("worker:1", 2.0) == 0.0
    assert schedule.slows_loaders
    assert not Schedule(build_plan("test", 0, 100.0, windows[1:])).slows_loaders


def test_who_is_moved_leaves_what_belongs_to_the_machine_behind() -> None:
    goes_along = Disturbance(start_s=2.0, end_s=9.0, target="worker:0", kind="delay", magnitude=0.25)
    windows = [of_machine(0.0, 9.0), of_machine(6.0, 9.0, "cpu", 0.5), of_machine(0.0, 9.0, worker=1), goes_along]
    schedule = Schedule(build_plan("test", 0, 100.0, windows))
    assert schedule.delay_for("worker:0", 3.0) == (1.25, 0.0)
    assert len(schedule.active(3.0)) == 3
    assert schedule.moved("worker:0", 4.0)
    assert schedule.delay_for("worker:0", 3.9) == (1.25, 0.0), "the past stays as it was"
    assert schedule.delay_for("worker:0", 4.0) == (0.25, 0.0)
    assert schedule.delay_for("worker:1", 4.0) == (1.0, 0.0)
    assert schedule.level("worker:0", "cpu", 7.0) == 1.0
    assert schedule.next_change(4.0) == 9.0
    assert list(schedule.active(7.0)) == [1, 2]
    assert not schedule.moved("worker:0", 5.0), "there is nothing left"
