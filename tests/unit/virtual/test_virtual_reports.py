"""What a virtual job reports at its own times, and what of that rests while it has no places."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from runtime.virtual.clock import TIMER, Clock
from runtime.virtual.control.reports import Reports
from runtime.virtual.tasks.servers import REPORT_EVERY_S, BusyServer
from tests.unit.virtual.test_virtual_session import slow

BUSY = BusyServer(server=0, updates=3, busy_s=0.5, injected_s=0.125)


class World:
    """A job whose one server always has the same to say."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.told: list[tuple[float, Any]] = []
        self.heard: list[tuple[float, Any]] = []
        usage = SimpleNamespace(served=lambda *about: None, sample=lambda now: (1.0, ("node",)))
        strategy = SimpleNamespace(watches_servers=False)
        coordinator = SimpleNamespace(
            version=7, strategy=strategy, receive=lambda t, given: self.heard.append((t, given))
        )
        self.reports = Reports(
            self.clock,
            slow(w1=1.0),
            cast("Any", SimpleNamespace(report=lambda: [BUSY])),
            cast("Any", coordinator),
            cast("Any", usage),
            tell=lambda given: self.told.append((self.clock.now, given)),
            note=lambda kind, active: None,
        )

    def until(self, end_s: float) -> None:
        ended: list[float] = []
        self.clock.at(end_s, TIMER, ended.append, end_s)
        while not ended:
            self.clock.step()


def test_while_nobody_is_there_it_rests_and_then_makes_up_for_it_once() -> None:
    world = World()
    world.reports.begin(0.25 * REPORT_EVERY_S)
    world.reports.rests = True
    before = len(world.told)
    world.until(3.5 * REPORT_EVERY_S)
    assert (len(world.told), world.heard) == (before, [])
    world.reports.resume()
    assert len(world.told) == before + 1
    assert [t for t, _ in world.heard] == [3.5 * REPORT_EVERY_S]
    world.until(4.6 * REPORT_EVERY_S)
    assert [t for t, _ in world.heard] == [3.5 * REPORT_EVERY_S, 4.5 * REPORT_EVERY_S]
