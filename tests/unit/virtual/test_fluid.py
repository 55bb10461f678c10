"""Activities on the virtual clock: worked numbers, time, rounding, bad input. Chance: test_fluid_schedules.py."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan, nextafter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.virtual.compiled._hosts import Fluid

NEAR = 1e-9
GIGABIT = 125e6
AMOUNTS = st.floats(0.01, 1000)


# ---- worked numbers -------------------------------------------------------------------------------------------------


def cluster(num_workers: int, num_servers: int = 1, up: float = GIGABIT, down: float = GIGABIT) -> Fluid:
    ups, downs = {f"up{k}": up for k in range(num_workers)}, {f"down{j}": down for j in range(num_servers)}
    return Fluid(ups | downs)


@pytest.mark.parametrize(("num_workers", "seconds"), [(1, 0.032), (4, 0.128)])
def test_pushes_into_one_server(num_workers: int, seconds: float) -> None:
    """4 MB at 1 Gbit/s: 32 Mbit take 32 ms; four workers share the server's link."""
    links = cluster(num_workers)
    for k in range(num_workers):
        links.start(0.0, k, 4e6, (f"up{k}", "down0"))
    assert links.next_s == pytest.approx(seconds, rel=1e-12)
    assert links.completed(links.next_s) == list(range(num_workers))


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


def test_who_ends_first_leaves_its_share_to_the_other() -> None:
    """One core for 1 and 3 core-seconds: half each until 2 s, then the other's last 2 core-seconds alone."""
    host = Fluid({"cores": 1.0})
    host.start(0.0, "short", 1.0, ("cores",), 1.0)
    host.start(0.0, "long", 3.0, ("cores",), 1.0)
    assert (host.next_s, host.rate("long")) == (2.0, 0.5)
    assert host.completed(2.0) == ["short"]
    assert (host.next_s, host.rate("long")) == (4.0, 1.0)


def test_a_capacity_that_falls_stretches_what_is_left() -> None:
    """10 at 1 a second; at 4 s the link halves: 6 left take 12 s. While it is dead, nothing ends."""
    link = Fluid({"link": 1.0})
    link.start(0.0, "push", 10.0, ("link",))
    link.set_capacity(4.0, "link", 0.5)
    assert link.next_s == 16.0
    link.set_capacity(8.0, "link", 0.0)
    assert (link.next_s, link.completed(100.0)) == (inf, [])
    link.set_capacity(100.0, "link", inf)
    assert (link.next_s, link.completed(100.0)) == (100.0, ["push"])


def test_stopping_gives_back_what_was_left() -> None:
    links = Fluid({"link": 2.0})
    links.start(0.0, "a", 4.0, ("link",))
    links.start(0.0, "b", 4.0, ("link",))
    assert links.stop(1.0, "a") == 3.0
    assert (links.rate("b"), links.next_s) == (2.0, 2.5)
    assert links.stop(9.0, "b") == 0.0
    assert (links.next_s, links.completed(9.0)) == (inf, [])


def test_nothing_to_do_is_done_at_once() -> None:
    links = Fluid({"link": 0.0})
    links.start(3.0, "empty", 0.0, ("link",))
    links.start(3.0, "unbound", 5.0, ())
    links.start(3.0, "stuck", 1.0, ("link",))
    assert (links.next_s, links.rate("empty"), links.rate("stuck")) == (3.0, 0.0, 0.0)
    assert links.completed(3.0) == ["empty", "unbound"]
    assert (links.next_s, links.stop(4.0, "stuck")) == (inf, 1.0)


# ---- time -----------------------------------------------------------------------------------------------------------


def test_an_unchanged_rate_is_never_rounded() -> None:
    """However often others come, go and are looked at, the end is start + amount / rate to the last bit."""
    hosts = Fluid({"here": 1.0, "core": 1e3})
    hosts.start(0.1, "steady", 0.7, ("here", "core"))
    for step in range(1, 30):
        t = 0.1 + step / 70
        hosts.start(t, step, 1e3, ("core",), 2.0)
        hosts.set_capacity(t, "core", 1e3 + step / 7)
        assert hosts.next_s == 0.1 + 0.7 / 1.0
        if step % 3 == 0:
            hosts.stop(t, step - 1)
    assert hosts.completed(0.1 + 0.7 / 1.0) == ["steady"]


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


def test_what_rounding_has_used_up_is_complete() -> None:
    """11.1 at 38 / 7 a second: just before its end nothing is left, rounded a little below zero."""
    link = Fluid({"link": 38 / 7})
    link.start(1.2, "push", 11.1, ("link",))
    before_s = nextafter(link.next_s, 0)
    assert 11.1 - 38 / 7 * (before_s - 1.2) < 0
    link.set_capacity(before_s, "link", 0.0)
    assert (link.next_s, link.completed(before_s)) == (before_s, ["push"])


def test_completions_that_nobody_saw_have_freed_their_share() -> None:
    """One core for 1 and 3: until 2 s half each, so that at 3 s one is left of the second."""
    host = Fluid({"cores": 1.0})
    host.start(0.0, "short", 1.0, ("cores",))
    host.start(0.0, "long", 3.0, ("cores",))
    assert host.stop(3.0, "long") == 1.0
    assert host.next_s == 2.0
    assert host.completed(3.0) == ["short"]


def test_what_starts_and_stops_at_once_takes_no_share() -> None:
    link = Fluid({"link": 2.0})
    for key in ("gone", "stays"):
        link.start(0.0, key, 4.0, ("link",))
    assert link.stop(0.0, "gone") == 4.0
    assert link.rate("stays") == 2.0


def test_what_nothing_limits_is_complete_before_anything_can_change() -> None:
    link = Fluid({"link": inf})
    link.start(3.0, "push", 5.0, ("link",))
    assert link.next_s == 3.0
    link.set_capacity(3.0, "link", 1.0)
    assert (link.next_s, link.completed(3.0)) == (3.0, ["push"])


def test_far_from_zero_small_amounts_still_end() -> None:
    """At 10^9 s the clock's steps are 10^-7 s."""
    link = Fluid({"link": 1.0})
    for k in range(3):
        link.start(1e9, k, 1e-9 * (k + 1), ("link",))
    assert link.completed(link.next_s) == [0, 1, 2]


def test_completions_come_in_the_order_of_their_starts() -> None:
    link = Fluid({"link": 3.0})
    for key, amount in [("slow", 2.0), ("fast", 1.0), ("never", 9.0)]:
        link.start(0.0, key, amount, ("link",), 1.0)
    assert link.completed(2.0) == ["slow", "fast"]
    link.start(2.0, "slow", 1.0, ("link",), 1.0)
    assert link.completed(9.0) == ["never", "slow"]


# ---- bad input ------------------------------------------------------------------------------------------------------


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
        (lambda link: link.stop(1.0, "new"), "'new'"),
        (lambda link: link.rate("new"), "'new'"),
        (lambda link: link.set_capacity(1.0, "lnik", 1.0), "'lnik'"),
        (lambda link: link.set_capacity(1.0, "link", -1.0), "capacity=-1.0"),
        (lambda link: link.set_capacity(0.0, "link", 1.0), "t=0.0"),
        (lambda link: link.completed(0.0), "t=0.0"),
        (lambda link: link.completed(inf), "t=inf"),
        (lambda link: Fluid({"link": nan}), "resource='link'"),
    ],
)
def test_other_bad_calls_are_named(call: Callable[[Fluid], object], named: str) -> None:
    link = Fluid({"link": 1.0})
    link.start(1.0, "old", 1.0, ("link",))
    with pytest.raises(ValueError, match=named):
        call(link)
