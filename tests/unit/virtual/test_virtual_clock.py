"""The virtual clock: what is due first happens first, and ties are broken by the order of scheduling alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.virtual.clock import MACHINE, MESSAGE, NETWORK, PLAN, TIMER, Clock, Timeline
from tests.support.compiled import HOSTS, needs_compiled

Entry = tuple[float, int]  # due, priority
PRIORITIES = (PLAN, MACHINE, NETWORK, MESSAGE, TIMER)
ENTRIES = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.5, 2.0]), st.sampled_from(PRIORITIES)))


def run(clock: Clock) -> None:
    while clock.next_s < math.inf:
        clock.step()


def happened(clock: Clock, entries: list[Entry]) -> list[tuple[float, int]]:
    """(time, number) of every entry, as the clock carries them out; what it hands on cannot be compared."""
    seen: list[tuple[float, int]] = []
    for number, (when_s, priority) in enumerate(entries):
        clock.at(when_s, priority, lambda about: seen.append((clock.now, about["number"])), {"number": number})
    run(clock)
    return seen


@given(ENTRIES)
def test_the_order_is_time_then_priority_then_sequence(entries: list[Entry]) -> None:
    expected = sorted((when_s, priority, number) for number, (when_s, priority) in enumerate(entries))
    assert happened(Clock(), entries) == [(when_s, number) for when_s, _, number in expected]


def test_the_plan_machines_links_messages_timers() -> None:
    entries = [(1.0, TIMER), (1.0, MESSAGE), (1.0, NETWORK), (1.0, MACHINE), (1.0, PLAN), (0.5, TIMER)]
    assert [number for _, number in happened(Clock(), entries)] == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("make", [Timeline, pytest.param(lambda: HOSTS.Timeline(), marks=needs_compiled)])
def test_times_that_round_to_one_happen_in_their_order(make: Callable[[], Timeline]) -> None:
    """Late in a lab a float cannot tell a quarter of a second from a half."""
    timeline, seen = make(), list[float]()
    kind: Any = Clock if isinstance(timeline, Timeline) else HOSTS.Clock
    late = kind(timeline, 2.0**54)
    for when_s in (0.5, 0.25, 0.75, 0.0):
        late.at(when_s, PLAN, seen.append, when_s)
    while timeline.next_s < math.inf:
        timeline.step()
    assert seen == [0.0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize("make", [Timeline, pytest.param(lambda: HOSTS.Timeline(), marks=needs_compiled)])
def test_what_a_job_that_is_over_had_scheduled_does_not_happen(make: Callable[[], Timeline]) -> None:
    timeline, seen = make(), list[str]()
    kind: Any = Clock if isinstance(timeline, Timeline) else HOSTS.Clock
    over, other = kind(timeline), kind(timeline)
    over.at(1.0, PLAN, seen.append, "over")
    other.at(2.0, PLAN, seen.append, "other")
    over.ended = True
    assert timeline.next_s == 2.0
    timeline.step()
    assert (seen, timeline.next_s) == (["other"], math.inf)
    over.at(3.0, PLAN, seen.append, "over")
    other.at(3.0, PLAN, seen.append, "last")
    timeline.step()
    assert seen == ["other", "last"]


def says(seed: int, timeline: Timeline, kind: Any) -> list[object]:
    """What two clocks and their timeline say while chance schedules, steps and catches up."""
    random, found = Random(seed), list[object]()
    offsets = [0.0, random.choice((0.0, 17.3, 0.1, 2.0**50 + 0.3))]
    clocks = [kind(timeline, offset_s) for offset_s in offsets]

    def act(clock: Clock, number: int) -> None:
        other = random.choice(clocks)
        found.append((number, clock.now, timeline.moment))
        other.catch_up()
        found.append((other.now, timeline.clock is other))
        for _ in range(random.randint(0, 2)):
            schedule(random.choice((clock, other)))

    def schedule(clock: Clock) -> None:
        when_s = clock.now + random.choice((0.0, -0.5, 0.1, 0.137, random.uniform(0, 3)))
        clock.at(when_s, random.choice(PRIORITIES), act, clock, random.randint(0, 999))

    for _ in range(10):
        schedule(random.choice(clocks))
    for _ in range(60):
        found.append((timeline.next_s, timeline.sequence))
        if timeline.next_s == math.inf:
            break
        timeline.step()
    return found


@needs_compiled
def test_the_compiled_clock_says_what_that_in_python_says() -> None:
    """It has a twin, since jobs that share no machines run without the kernel."""
    for seed in range(300):
        assert says(seed, HOSTS.Timeline(), HOSTS.Clock) == says(seed, Timeline(), Clock), seed
