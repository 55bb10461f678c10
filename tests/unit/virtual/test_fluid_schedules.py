"""Random schedules on the virtual clock: work adds up, and rates are fair at every moment."""

from __future__ import annotations

from collections.abc import Hashable
from math import inf
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.virtual.compiled._hosts import Fluid
from tests.support.reference_fluid import Demand
from tests.unit.virtual.test_fair_rates import NEAR, slack_of, unfair

NAMES = ("a", "b", "c", "d", "e")
AMOUNTS = st.floats(0.01, 1000)
CAPACITIES = st.one_of(AMOUNTS, st.sampled_from([0.0, 1.0, 100.0, inf]))
LIMITS = st.one_of(st.just(inf), AMOUNTS, st.sampled_from([0.0, 1.0, 50.0]))
WEIGHTS = st.one_of(st.just(1.0), st.floats(0.1, 10))
RESOURCES = st.lists(st.sampled_from(NAMES), max_size=4, unique=True).map(tuple)
WORLDS = st.fixed_dictionaries(dict.fromkeys(NAMES, CAPACITIES))


class Start(NamedTuple):
    amount: float
    demand: Demand


class Stop(NamedTuple):
    which: int


class Change(NamedTuple):
    resource: str
    capacity: float


Op = Start | Stop | Change
STARTS = st.builds(Start, st.one_of(st.just(0.0), AMOUNTS), st.builds(Demand, RESOURCES, LIMITS, WEIGHTS))
OPS = st.one_of(
    STARTS, STARTS, STARTS, st.builds(Stop, st.integers(0, 99)), st.builds(Change, st.sampled_from(NAMES), CAPACITIES)
)
SCHEDULES = st.lists(st.tuples(st.one_of(st.just(0.0), st.floats(0, 30)), OPS), max_size=25)
Schedule = list[tuple[float, Op]]


class Player:
    """Plays a schedule, looks at every rate between any two changes, and adds up the work that they make."""

    def __init__(self, world: dict[str, float]) -> None:
        self.fluid, self.world, self.now = Fluid(world), dict(world), 0.0
        self.asked: dict[Hashable, Start] = {}
        self.done: dict[Hashable, float] = {}
        self.complaints: list[str] = []

    def play(self, schedule: Schedule) -> list[str]:
        for number, (gap_s, op) in enumerate(schedule):
            self.go_on(self.now + gap_s)
            self.change(number, op)
        self.go_on(self.now + 1e7)
        for key in list(self.asked):
            self.stop(key)
        return self.complaints

    def go_on(self, until: float) -> None:
        """From completion to completion."""
        while (next_s := self.fluid.next_s) <= until:
            if next_s < self.now:
                self.complaints.append(f"ends at {next_s}, in the past")
            self.work(next_s)
            ended = self.fluid.completed(next_s)
            for key in ended:
                self.settle(key, self.asked[key].amount)
            if not ended:
                self.complaints.append(f"nothing is complete at {next_s}")
                return
        self.work(until)

    def work(self, until: float) -> None:
        rates = {key: self.fluid.rate(key) for key in self.asked}
        running = [key for key in self.asked if self.asked[key].amount]
        demands = [self.asked[key].demand for key in running]
        self.complaints += unfair(self.world, demands, [rates[key] for key in running])
        for key, rate in rates.items():
            self.done[key] = self.asked[key].amount if rate == inf else self.done[key] + rate * (until - self.now)
        self.now = until

    def change(self, number: int, op: Op) -> None:
        match op:
            case Start(amount=amount, demand=demand):
                self.fluid.start(self.now, number, amount, *demand)
                self.asked[number], self.done[number] = op, 0.0
            case Stop(which=which) if self.asked:
                self.stop(list(self.asked)[which % len(self.asked)])
            case Change(resource=name, capacity=capacity):
                self.fluid.set_capacity(self.now, name, capacity)
                self.world[name] = capacity

    def stop(self, key: Hashable) -> None:
        left = self.fluid.stop(self.now, key)
        self.settle(key, self.asked[key].amount - left)

    def settle(self, key: Hashable, work: float) -> None:
        """What was done must be what the rates made."""
        amount, done = self.asked.pop(key).amount, self.done.pop(key)
        if done != pytest.approx(work, rel=1e-6, abs=1e-6 * amount):
            self.complaints.append(f"{key}: the rates made {done}, but {work} of {amount} is done")


@settings(max_examples=60)
@given(WORLDS, SCHEDULES)
def test_work_adds_up_and_rates_are_fair_at_every_moment(world: dict[str, float], schedule: Schedule) -> None:
    assert Player(world).play(schedule) == []


@given(WORLDS, SCHEDULES)
def test_whoever_looks_rarely_sees_the_same(world: dict[str, float], schedule: Schedule) -> None:
    """Completions that nobody asked for in time have freed their share in time, to the last bit."""
    often, rarely, t = Fluid(world), Fluid(world), 0.0
    running: set[int] = set()
    for number, (gap_s, op) in enumerate(schedule):
        t += gap_s
        seen: list[Any] = []
        while often.next_s <= t:
            seen += often.completed(often.next_s)
        late = rarely.completed(t)
        while rarely.next_s <= t:
            late += rarely.completed(t)
        assert {*late} == {*seen}
        running -= set(seen)
        for each in (often, rarely):
            if isinstance(op, Start):
                each.start(t, number, op.amount, *op.demand)
            elif isinstance(op, Change):
                each.set_capacity(t, op.resource, op.capacity)
        if isinstance(op, Start):
            running.add(number)
    assert often.next_s == rarely.next_s
    assert {key: often.stop(t, key) for key in running} == {key: rarely.stop(t, key) for key in running}


@given(WORLDS, st.lists(STARTS, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_starts_at_one_time_are_equal(world: dict[str, float], starts: list[Start], random: Any) -> None:
    order = list(range(len(starts)))
    random.shuffle(order)
    fluids = Fluid(world), Fluid(world)
    for each, keys in zip(fluids, (range(len(starts)), order), strict=True):
        for key in keys:
            each.start(1.0, key, starts[key].amount, *starts[key].demand)
    slack = slack_of(world)
    rates, others = ([each.rate(key) for key in range(len(starts))] for each in fluids)
    assert rates == pytest.approx(others, rel=NEAR, abs=slack)
