"""Activities on the virtual clock: worked numbers, time, rounding, bad input. Chance: test_fluid_schedules.py."""

from __future__ import annotations

import gc
from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.virtual.compiled._hosts import Fluid

NEAR = 1e-9
GIGABIT = 125e6
AMOUNTS = st.floats(0.01, 1000)


def cluster(num_workers: int, num_servers: int = 1, up: float = GIGABIT, down: float = GIGABIT) -> Fluid:
    ups, downs = {f"up{k}": up for k in range(num_workers)}, {f"down{j}": down for j in range(num_servers)}
    return Fluid(ups | downs)


@given(st.integers(1, 12), st.integers(1, 5), AMOUNTS, AMOUNTS, AMOUNTS)
def test_a_push_takes_what_the_closed_form_says(n: int, m: int, size: float, up: float, down: float) -> None:
    """n workers send an equal part to each of m servers at once: all uplinks are saturated, or all downlinks."""
    links = cluster(n, m, up, down)
    for k in range(n):
        for j in range(m):
            links.start(1.0, (k, j), size / m, (f"up{k}", f"down{j}"))
    expected_s = max(size / up, n * size / (m * down))
    assert links.next_s == pytest.approx(1.0 + expected_s, rel=NEAR)
    links.completed(1.0 + expected_s * (1 + NEAR))
    assert links.next_s == inf


def test_the_computed_end_counts_and_not_the_rounded_rest() -> None:
    """At its end an activity is complete even if amount - rate * duration is a little above zero."""
    rests = []
    for k in range(1, 200):
        link = Fluid({"link": k / 7})
        link.start(0.3, k, k * 0.1, ("link",))
        end_s = link.next_s
        rests.append(k * 0.1 - k / 7 * (end_s - 0.3))
        link.set_capacity(end_s, "link", 0.0)
        assert (link.next_s, link.completed(end_s)) == (end_s, [k])
    assert max(rests) > 0, "none had a rest: this shows nothing"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((1.0, "new", 1.0, ("link", "lnik")), "'lnik'"),
        ((1.0, "old", 1.0, ("link",)), "'old'"),
        ((1.0, "over", 1.0, ("link",)), "'over'"),
        ((1.0, "new", -1.0, ("link",)), "amount=-1.0"),
        ((1.0, "new", inf, ("link",)), "amount=inf"),
        ((1.0, "new", nan, ("link",)), "amount=nan"),
        ((1.0, "new", 1.0, ("link", "link")), "resources="),
        ((1.0, "new", 1.0, ("link",), -2.0), "limit=-2.0"),
        ((1.0, "new", 1.0, ("link",), nan), "limit=nan"),
        ((1.0, "new", 1.0, ("link",), 1.0, 0.0), "weight=0.0"),
        ((1.0, "new", 1.0, ("link",), 1.0, inf), "weight=inf"),
        ((0.5, "new", 1.0, ("link",)), "t=0.5"),
        ((inf, "new", 1.0, ("link",)), "t=inf"),
        ((nan, "new", 1.0, ("link",)), "t=nan"),
    ],
)
def test_bad_starts_are_named_and_change_nothing(arguments: Any, named: str) -> None:
    link = Fluid({"link": 1.0})
    link.start(1.0, "over", 0.0, ("link",))
    link.start(1.0, "old", 1.0, ("link",))
    with pytest.raises(ValueError, match=named):
        link.start(*arguments)
    assert (link.completed(2.0), link.next_s) == (["over", "old"], inf)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda link: link.stop(2.0, "new"), "key='new'"),
        (lambda link: link.left(2.0, "new"), "key='new'"),
        (lambda link: link.rate("new"), "key='new'"),
        (lambda link: link.set_capacity(2.0, "link", -1.0), "capacity=-1.0"),
        (lambda link: link.set_quota(2.0, "lnik", None), "resource='lnik'"),
        (lambda link: link.remove(["lnik"]), "resource='lnik'"),
    ],
)
def test_what_is_not_there_is_named(call: Callable[[Fluid], object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        call(Fluid({"link": 1.0}))


def test_nothing_is_kept() -> None:
    """Neither keys of ended activities nor those of a model that is dropped, even if they refer to it."""

    class Key:
        alive = 0

        def __init__(self) -> None:
            Key.alive += 1

        def __del__(self) -> None:
            Key.alive -= 1

    fluid = Fluid({"one": 1.0})
    for number in range(100):
        fluid.start(float(number), Key(), 0.25 if number % 2 else 0.0, ("one",))
        fluid.completed(number + 0.5)
    fluid.stop(100.0, key := _begun(fluid, Key()))
    del key
    assert Key.alive == 0
    last = Key()
    last.fluid = fluid  # type: ignore[attr-defined]
    fluid.start(101.0, last, 5.0, ("one",))
    del fluid, last
    gc.collect()
    assert Key.alive == 0


def _begun(fluid: Any, key: object) -> object:
    fluid.start(100.0, key, 5.0, ("one",))
    return key
