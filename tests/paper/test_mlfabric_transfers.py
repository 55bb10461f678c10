"""MLfabric, SoCC 2020 (slides of a talk): delays, aggregation and replication by hand; the order against the slides'
own loop (slides 10 to 13) on drawn networks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import strategies.mlfabric.order as planner
from strategies.mlfabric.fluid import Update
from strategies.mlfabric.order import Aggregator, group, plan
from strategies.mlfabric.replicas import Lag, to_replicate

MB = 1e6


@pytest.mark.parametrize("tau_max", [math.inf, 24, 10])
def test_equal_updates_are_planned_as_if_each_was_asked(tau_max: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the paper: of those that would end together only one is looked at, and the plan is the same to the bit."""
    rng = np.random.default_rng(0)
    plans = []
    for _ in range(20):
        rates = rng.choice([50.0, 100.0, 200.0], size=6)
        links = {"server": 100.0, **{f"host {number}": float(rate) for number, rate in enumerate(rates)}}
        pending = [
            Update(
                id=number,
                worker=number,
                version=100 - int(rng.integers(12)),
                size_bytes=float(rng.choice([100.0, 100.0, 30.0])),
                ready_s=float(rng.choice([-1.0, -0.5, 0.2])),
                path=(f"host {number % 6}", "server"),
            )
            for number in range(12)
        ]
        running = plan(pending[:3], links, now_s=0.0, version=100, tau_max=math.inf).slots
        settings = {"now_s": 0.1, "version": 100, "tau_max": tau_max, "running": running}
        plans.append((pending[3:], links, settings, plan(pending[3:], links, **settings)))
    monkeypatch.setattr(planner, "_tell_kinds", one_by_one)
    assert [plan(pending, links, **settings) for pending, links, settings, _ in plans] == [found for *_, found in plans]


def one_by_one(queue: Any, links: Any, running: Any) -> None:
    for number, waiting in enumerate(queue):
        waiting.kind = number


def test_a_delay_is_n_minus_u_beyond_the_bound_without_an_order() -> None:
    """Slide 7: the last of all that are sent at once, of version v - (tau_max - u), has delay tau_max + N' - u.

    With N' updates that are applied before it; a delay here does not count the update itself."""
    present, tau_max, u, others = 100, 9, 3, 8
    late = Update(id=99, worker=99, version=present - (tau_max - u), size_bytes=2 * MB, ready_s=0, path=("server",))
    fresh = [Update(id=k, worker=k, version=present, size_bytes=MB, ready_s=0, path=("server",)) for k in range(others)]
    found = plan([*fresh, late], {"server": MB}, now_s=0, version=present, tau_max=math.inf)
    assert found.slots[-1].update is late
    assert found.slots[-1].delay == tau_max + (others - u)


def test_neighbours_are_summed_while_the_server_is_busy() -> None:
    """Slide 14: six of 100 MB; the third and fourth are at the aggregator when the first two are at the server."""
    pending = [Update(id=k, worker=k, version=0, size_bytes=100 * MB, ready_s=0, path=("server",)) for k in range(6)]
    links = {"server": 100 * MB, "in": 100 * MB, "out": 100 * MB}
    summing = Aggregator(name="aggregator", inward=("in",), outward=("out", "server"))
    found = group(pending, links, now_s=0, server=("server",), aggregators=[summing])
    assert [[member.id for member in one.members] for one in found] == [[0], [1], [2, 3], [4], [5]]
    assert [one.arrived_s for one in found] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [one.via for one in found] == [None, None, "aggregator", None, None]
    without = group(pending, links, now_s=0, server=("server",), aggregators=[])
    assert without[-1].arrived_s == 6.0


def test_the_lag_of_two_updates_has_the_bound_worked_by_hand_and_the_oldest_is_replicated_first() -> None:
    """Slide 15: a replica that lags by two; the terms of the updates alone, 3.3142, are below the true 5.0569.
    Slide 15, picture b: without momentum the distance is the sum of what is missing."""
    momentum, carried = 0.9, float(np.linalg.norm([0.9 * 0.5 + 1.0, 0.9 * 0.5]))
    lag = Lag(momentum=momentum, norms=(1.0, math.sqrt(2)), carried=carried)
    assert lag.bound == pytest.approx(5.9104, abs=5e-5)
    assert Lag(momentum=momentum, norms=lag.norms).bound == pytest.approx(3.3142, abs=5e-5)
    h = np.array([0.5, 0.5])
    away = np.zeros(2)
    for place, u in enumerate(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])):
        h = momentum * h + u
        if place > 0:
            away = away + h
    assert np.linalg.norm(away) == pytest.approx(5.0569, abs=5e-5)
    lag = Lag(momentum=0.0, norms=(1.0, 1.0))
    assert [to_replicate(lag, 1.0, bound) for bound in (3.0, 2.9, 1.5, 0.5)] == [0, 1, 2, 3]


Taken = dict[str, list[tuple[Fraction, Fraction, Fraction]]]
"""(begin, end, rate) that earlier transfers have reserved of every link."""
Segment = tuple[Fraction, Fraction, Fraction]


def transfer(update: Update, links: dict[str, int], taken: Taken) -> list[Segment]:
    """At every instant as fast as its path allows: what the bottleneck has left."""
    begin, left = Fraction(update.ready_s), Fraction(update.size_bytes)
    steps = sorted({begin} | {end for name in update.path for one in taken[name] for end in one[:2] if end > begin})
    found = list[Segment]()
    for start, end in pairwise([*steps, None]):
        assert start is not None
        rate = min(
            links[name] - sum((one[2] for one in taken[name] if one[0] <= start < one[1]), Fraction(0))
            for name in update.path
        )
        if rate:
            done = start + left / rate
            if end is None or done <= end:
                return [*found, (start, done, rate)]
            found.append((start, end, rate))
            left -= (end - start) * rate
    raise AssertionError("the last step has no end")


def by_the_slides(
    pending: Sequence[Update], links: dict[str, int], version: int, tau_max: float, tolerance: Fraction | None
) -> Iterator[tuple[str, int]]:
    """("sent", "missed" or "idle", update) in the order of the slides' iterations i = 0, 1, ...

    ``dl(g) = v(g) + tau_max - v_init``. An update that is due in an iteration goes first; it is dropped if the shortest
    transfer would be applied more than ``tolerance`` earlier, and so is one whose deadline has passed."""
    left, taken, slot, last = list(pending), Taken({name: [] for name in links}), 0, Fraction(0)
    while left:
        for update in [one for one in left if one.version + tau_max - version < slot]:
            left.remove(update)
            yield "missed", update.id
        ways = {one.id: transfer(one, links, taken) for one in left}
        if not ways:
            return
        ends = sorted({max(last, way[-1][1]) for way in ways.values()} | {way[-1][1] for way in ways.values()})
        assume(all(after - before > Fraction(1, 10**6) for before, after in pairwise(ends)))  # floats cannot tell them
        shortest = min(left, key=lambda one: (ways[one.id][-1][1], one.id))
        due = [one for one in left if one.version + tau_max - version == slot]
        chosen = min(due, key=lambda one: (ways[one.id][-1][1], one.id)) if due else shortest
        left.remove(chosen)
        late = max(last, ways[chosen.id][-1][1]) - max(last, ways[shortest.id][-1][1])
        if tolerance is not None and late > tolerance:
            yield "idle", chosen.id
            continue
        for name in chosen.path:
            taken[name] += ways[chosen.id]
        last, slot = max(last, ways[chosen.id][-1][1]), slot + 1
        yield "sent", chosen.id


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[Update], dict[str, int], int]:
    """Workers with uplinks of their own and one link into the server, with sizes and rates that seldom tie."""
    version, count = draw(st.integers(5, 12)), draw(st.integers(1, 7))
    links = {"in": draw(st.sampled_from([101, 199]))}
    links |= {f"up{number}": draw(st.sampled_from([23, 47, 97, 151])) + number for number in range(count)}
    pending = [
        Update(
            id=number,
            worker=number,
            version=version - draw(st.integers(0, 5)),
            size_bytes=draw(st.integers(20, 180)),
            ready_s=draw(st.sampled_from([0.0, 0.0, 0.5, 1.25])),
            path=(f"up{number}", "in"),
        )
        for number in range(count)
    ]
    return pending, links, version


@settings(max_examples=60)
@given(case=networks(), tau_max=st.integers(2, 14), tolerance=st.sampled_from([None, 0, 1, 3]))
def test_the_order_is_that_of_the_slides(
    case: tuple[list[Update], dict[str, int], int], tau_max: int, tolerance: int | None
) -> None:
    """Slides 10 to 13: shortest transfer first, deadlines, drops."""
    pending, links, version = case
    wanted = list(by_the_slides(pending, links, version, tau_max, None if tolerance is None else Fraction(tolerance)))
    order = plan(
        pending,
        {name: float(rate) for name, rate in links.items()},
        now_s=0.0,
        version=version,
        tau_max=tau_max,
        idle_tolerance_s=math.inf if tolerance is None else float(tolerance),
    )
    assert [slot.update.id for slot in order.slots] == [name for what, name in wanted if what == "sent"]
    assert {(drop.reason, drop.update.id) for drop in order.drops} == {one for one in wanted if one[0] != "sent"}
