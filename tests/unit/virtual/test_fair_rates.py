"""Max-min fair rates: what fairness means, worked numbers, and allocators that are not fair.

Chance: test_fluid_schedules.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, nextafter

import pytest

from runtime.virtual.compiled._hosts import Fluid
from tests.support.reference_fluid import Demand

NEAR = 1e-9
"""Relative; the allocator itself is right to a few times 1e-16 of a capacity."""
Allocator = Callable[[Mapping[str, float], Sequence[Demand]], list[float]]


def fair_rates(capacities: Mapping[str, float], demands: Sequence[Demand]) -> list[float]:
    """What each of these gets when all begin at once."""
    fluid = Fluid(capacities)
    for number, demand in enumerate(demands):
        fluid.start(0.0, number, 1.0, *demand)
    return [fluid.rate(number) for number in range(len(demands))]


# ---- what fair means ------------------------------------------------------------------------------------------------


def unfair(capacities: Mapping[str, float], demands: Sequence[Demand], rates: Sequence[float]) -> list[str]:
    """What is wrong with an allocation: nobody over a limit or capacity, and everybody stopped by one of the two."""
    slack = slack_of(capacities)
    used = {name: sum(r for d, r in zip(demands, rates, strict=True) if name in d.resources) for name in capacities}
    found = [
        f"{name} gives {used[name]} of {capacities[name]}" for name in used if used[name] > capacities[name] + slack
    ]
    for k, (demand, rate) in enumerate(zip(demands, rates, strict=True)):
        if not 0 <= rate <= demand.limit * (1 + NEAR):
            found.append(f"{k} gets {rate} of at most {demand.limit}")
        elif rate < demand.limit * (1 - NEAR) and not any(
            used[name] >= capacities[name] - slack and is_largest(name, k, demands, rates, slack)
            for name in demand.resources
        ):
            found.append(f"{k} could get more than {rate}")
    return found


def slack_of(capacities: Mapping[str, float]) -> float:
    """Rates are rounded on the scale of the largest capacity."""
    return NEAR * max([value for value in capacities.values() if value < inf], default=0.0)


def is_largest(name: str, k: int, demands: Sequence[Demand], rates: Sequence[float], slack: float) -> bool:
    """Whether nobody on the resource has a larger rate by weight."""
    ours = (rates[k] + slack) / demands[k].weight
    others = [rate / demand.weight for demand, rate in zip(demands, rates, strict=True) if name in demand.resources]
    return max(others) <= ours * (1 + NEAR)


# ---- negative controls: wrong allocators ----------------------------------------------------------------------------


def equal_split(world: Mapping[str, float], demands: Sequence[Demand]) -> list[float]:
    """What somebody cannot use is given to nobody."""
    total = {name: sum(demand.weight for demand in demands if name in demand.resources) for name in world}
    return [min(d.limit, *(world[name] * d.weight / total[name] for name in d.resources)) for d in demands]


def first_come(world: Mapping[str, float], demands: Sequence[Demand]) -> list[float]:
    left, rates = dict(world), []
    for demand in demands:
        rates.append(min(demand.limit, *(left[name] for name in demand.resources)))
        left |= {name: left[name] - rates[-1] for name in demand.resources}
    return rates


WORLD = {"up0": 20.0, "up1": 100.0, "up2": 100.0, "down": 100.0}
SENDERS = [Demand(("up0", "down"), 10.0), Demand(("up1", "down")), Demand(("up2", "down"), weight=2.0)]
WRONG: dict[str, Allocator] = {
    "an equal split": equal_split,
    "first come, first served": first_come,
    "overbooking": lambda world, demands: [min(one.limit, *(world[name] for name in one.resources)) for one in demands],
    "no weights": lambda world, demands: fair_rates(world, [one._replace(weight=1.0) for one in demands]),
    "no limits": lambda world, demands: fair_rates(world, [one._replace(limit=inf) for one in demands]),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_unfair_allocation_is_caught(name: str) -> None:
    assert unfair(WORLD, SENDERS, fair_rates(WORLD, SENDERS)) == []
    assert unfair(WORLD, SENDERS, WRONG[name](WORLD, SENDERS)) != []


# ---- worked numbers -------------------------------------------------------------------------------------------------


def test_a_chain_of_bottlenecks() -> None:
    """a: 10 for two, so 5 each; b: 12 - 5 = 7 for one more; c: 20 - 7 = 13 for the last."""
    demands = [Demand(("a",)), Demand(("a", "b")), Demand(("b", "c")), Demand(("c",))]
    assert fair_rates({"a": 10, "b": 12, "c": 20}, demands) == [5, 5, 7, 13]


def test_without_capacity_there_is_no_rate_and_without_bounds_no_end_to_it() -> None:
    world = {"dead": 0.0, "free": inf}
    assert fair_rates(world, [Demand(("dead", "free")), Demand(("free",)), Demand(("free",), 3), Demand(())]) == [
        0,
        inf,
        3,
        inf,
    ]
    assert fair_rates(world, []) == []
    assert [fair_rates(world, [demand])[0] for demand in (Demand(()), Demand((), 2), Demand(("free", "dead")))] == [
        inf,
        2,
        0,
    ]


def test_what_rounding_has_given_away_twice_is_not_taken_from_others() -> None:
    """Twelve limits just below 0.7 / 12 add up to more than 0.7: nothing is left for the smallest of weights."""
    limit = nextafter(0.7 / 12, 0)
    assert 0.7 - sum([limit] * 12) < 0
    rates = fair_rates({"link": 0.7}, [Demand(("link",), limit)] * 12 + [Demand(("link",), weight=1e-18)])
    assert rates == [limit] * 12 + [0.0]
