"""The coordinator of a virtual job does one thing at a time, in the order in which it came."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from runtime.virtual.clock import MESSAGE, Clock
from runtime.virtual.control.inbox import Inbox, Stopwatch

DECISION_S = 0.25


class Owner:
    """Keeps what was processed when, and when the orders left; ``over_at_s``: the job is over from then on."""

    def __init__(self, over_at_s: float = 99.0, stopwatch: Stopwatch | None = None) -> None:
        self.clock, self.over_at_s = Clock(), over_at_s
        self.inbox = Inbox(self.clock, cast("Any", self), DECISION_S, stopwatch)
        self.seen: list[tuple[float, str]] = []
        self.left: list[tuple[float, float]] = []

    def react(self, call: Callable[..., None], now: float, args: tuple[Any, ...]) -> bool:
        if now >= self.over_at_s:
            return False
        call(now, *args)
        return True

    def decided(self, now: float, sent_s: float) -> None:
        self.left.append((now, sent_s))

    def play(self, **comes_s: float) -> None:
        """What comes at these times; until nothing more happens."""
        for name, at_s in comes_s.items():
            self.clock.at(at_s, MESSAGE, partial(self.inbox.drive, lambda t, name: self.seen.append((t, name)), name))
        while self.clock.timeline.peek() is not None:
            self.clock.step()


def test_what_comes_meanwhile_waits_in_order_and_each_takes_its_time() -> None:
    """``c`` comes when the coordinator is free after ``a``, which is when ``b`` has its turn."""
    owner = Owner()
    owner.play(a=1.0, b=1.125, c=1.25)
    assert owner.seen == [(1.0, "a"), (1.25, "b"), (1.5, "c")]
    assert owner.left == [(1.0, 1.25), (1.25, 1.5), (1.5, 1.75)]


def test_nothing_is_decided_when_the_job_is_over() -> None:
    owner = Owner(over_at_s=1.2)
    owner.play(a=1.0, b=1.1, c=3.0)
    assert owner.seen == [(1.0, "a")]
    assert owner.left == [(1.0, 1.25)]


def test_measured_seconds_are_charged_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([10.0, 10.5])
    monkeypatch.setattr("runtime.virtual.control.inbox.time.perf_counter", lambda: next(readings))
    stopwatch = Stopwatch()
    owner = Owner(stopwatch=stopwatch)

    def decide(t: float) -> None:
        stopwatch()
        stopwatch()

    owner.inbox.drive(decide)
    assert owner.left == [(0.0, DECISION_S + 0.5)]
