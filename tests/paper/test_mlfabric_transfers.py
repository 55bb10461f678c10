"""MLfabric, SoCC 2020 (slides of a talk): the worked numbers of delays, aggregation and replication."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

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
