"""The event loop: timers in their order, sockets as they become ready."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.live.transport import loop as loops
from runtime.live.transport.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def turn(loop: Loop, times: int = 3) -> None:
    for _ in range(times):
        loop.turn(0.0)


def test_timers_go_off_in_their_order_and_once(loop: Loop) -> None:
    heard: list[str] = []
    for when, name in ((-1.0, "second"), (-2.0, "first"), (-1.0, "third"), (1e6, "never")):
        loop.at(when, lambda name=name: heard.append(name))  # type: ignore[misc]
    turn(loop)
    assert heard == ["first", "second", "third"]


def test_nobody_waits_longer_than_the_next_timer(loop: Loop) -> None:
    heard: list[bool] = []
    loop.after(0.01, lambda: heard.append(True))
    loop.turn(at_most_s=30.0)
    loop.turn(0.0)
    assert heard
    assert loop.now < 25


def test_when_the_clock_starts_anew_timers_keep_their_moment(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(loops.time, "monotonic", lambda: now[0])
    loop.origin = 1000.0
    heard: list[float] = []
    loop.after(5.0, lambda: heard.append(now[0]))
    now[0] = 1003.0
    loop.restart_clock()
    assert loop.now == 0.0
    loop.after(1.0, lambda: heard.append(now[0]))
    for now[0] in (1003.5, 1004.0, 1004.5, 1005.0):
        turn(loop)
    assert heard == [1004.0, 1005.0]


def test_loops_beside_each_other_have_clocks_of_their_own(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(loops.time, "monotonic", lambda: now[0])
    first, second = Loop(loop), Loop(loop)
    heard: list[tuple[str, float, bool]] = []
    first.after(2.0, lambda: heard.append(("first", first.now, loop.called is first)))
    now[0] = 1001.0
    second.restart_clock()
    second.after(0.5, lambda: heard.append(("second", second.now, loop.called is second)))
    for now[0] in (1001.5, 1002.0):
        turn(loop)
    assert heard == [("second", 0.5, True), ("first", 2.0, True)]
    for one in (first, second):
        one.after(-1.0, lambda one=one: heard.append((str(one is first), 0.0, True)))  # type: ignore[misc]
    first.forget_timers()
    turn(loop)
    assert heard[2:] == [("False", 0.0, True)], "those of one loop are forgotten"
