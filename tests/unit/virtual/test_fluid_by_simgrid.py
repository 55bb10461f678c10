"""Shared links and processors against SimGrid: stored ends of 400 scenarios (``tests/support/simgrid_scenarios.py``).

In them: flows and computations that start at any time, limits and weights, one to four cores, routes of two or three
links, links that become slower and faster, windows, processors that change both ways, pauses.
"""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from runtime.virtual.compiled._hosts import Fluid
from tests.support.simgrid_scenarios import Scenario, draw, stored_ends


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    """Drawn again, each with its stored ends."""
    return [{**draw(seed), "ends": ends} for seed, ends in enumerate(stored_ends())]


class Replay:
    """A computation has a core of its own (``thread``), of which its host has some; ``gate`` pauses."""

    def __init__(self, scenario: Scenario) -> None:
        self.starts, self.hosts = scenario["starts"], [list(host) for host in scenario["hosts"]]
        links = [rate for pair in scenario["links"] for rate in pair]
        world = {f"link {k}": rate for k, rate in enumerate(links)}
        world |= {f"host {k}": speed * cores for k, (speed, cores) in enumerate(self.hosts)}
        world |= {"link -1": scenario["core"] or inf}
        world |= {f"{what} {number}": inf for number in range(len(self.starts)) for what in ("gate", "thread")}
        self.fluid, self.ends, self.running = Fluid(world), dict[Any, float](), set[int]()
        starts = [(start[0], "start", number) for number, start in enumerate(self.starts)]
        self.todo: list[tuple[Any, ...]] = sorted([*starts, *(tuple(event) for event in scenario["events"])])

    def run(self) -> list[float]:
        for t, what, number, *value in self.todo:
            self.wait(t)
            getattr(self, f"{what}_")(t, number, *value)
        self.wait(1e9)
        return [self.ends[number] for number in range(len(self.starts))]

    def wait(self, until: float) -> None:
        while (next_s := self.fluid.next_s) <= until:
            for number in self.fluid.completed(next_s):
                self.ends[number] = next_s
                self.running.discard(number)  # type: ignore[arg-type]

    def start_(self, t: float, number: int) -> None:
        _, what, amount, place, *more = self.starts[number]
        self.running.add(number)
        if what == "flow":
            ways = (f"link {2 * place}", f"link {2 * more[0] + 1}", "link -1", f"gate {number}")
            self.fluid.start(t, number, amount, ways, more[1] or inf)
        else:
            self.fluid.set_capacity(t, f"thread {number}", self.hosts[place][0])
            cores = (f"host {place}", f"thread {number}", f"gate {number}")
            self.fluid.start(t, number, amount, cores, weight=more[0])

    def link_(self, t: float, link: int, rate: float) -> None:
        self.fluid.set_capacity(t, f"link {link}", rate)

    def speed_(self, t: float, host: int, speed: float) -> None:
        self.hosts[host][0] = speed
        self.fluid.set_capacity(t, f"host {host}", speed * self.hosts[host][1])
        for number, (_, what, _, place, *_) in enumerate(self.starts):
            if what == "work" and place == host:
                self.fluid.set_capacity(t, f"thread {number}", speed)

    def pause_(self, t: float, number: int) -> None:
        if number in self.running:
            self.fluid.set_capacity(t, f"gate {number}", 0.0)

    def continue_(self, t: float, number: int) -> None:
        self.fluid.set_capacity(t, f"gate {number}", inf)


def test_activities_end_when_simgrid_says(scenarios: list[Scenario]) -> None:
    for number, scenario in enumerate(scenarios):
        assert Replay(scenario).run() == pytest.approx(scenario["ends"], rel=1e-9, abs=0), number


def test_a_model_that_ignores_something_is_caught(scenarios: list[Scenario], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replay, "pause_", lambda *_: None)
    some = scenarios[::4]
    wrong = [scenario for scenario in some if Replay(scenario).run() != pytest.approx(scenario["ends"], rel=1e-9)]
    assert len(wrong) > len(some) // 8
