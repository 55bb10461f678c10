"""Tasks on compiled machines and jobs in a compiled lab: what happens, and when, is the same to the last bit."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any

import pytest

from runtime.virtual.clock import PLAN, Clock
from runtime.virtual.machines import twins
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.protocol import Strategy
from tests.support.compiled import HOSTS, needs_compiled
from tests.support.long_tests import long_after
from tests.support.virtual_runs import VirtualRun, draw_host_world
from tests.unit.virtual.test_machines_by_reference import BLOCKS, Busy, Found, seeds

pytestmark = needs_compiled

JOBS = {"three": range(1, 4), "three more": range(4, 7), "six more": range(7, 13)}


class Requesting(Busy):
    """Some tasks of hosts with so many cores have requests, which change."""

    def run(self) -> Found:
        random = Random(str(self.tasks))
        limited = [task for task in self.tasks if self.machines.sites[task].cores < inf]
        for _ in range(random.randint(0, 6) if limited else 0):
            task, cores = random.choice(limited), random.choice((None, 0.1, random.uniform(0.01, 1)))
            self.clock.at(random.choice((0.0, random.uniform(0, 3))), PLAN, self.machines.request, task, cores)
        return super().run()


@pytest.mark.parametrize("block", BLOCKS)
def test_tasks_take_as_long_on_both_clocks(block: int) -> None:
    for seed in seeds(block):
        assert Requesting(seed, HOSTS.Clock()).run() == Requesting(seed, Clock()).run(), seed


def test_requests_change_something() -> None:
    assert any(Requesting(seed).run() != Busy(seed).run() for seed in range(20))


@pytest.mark.few(1)
@pytest.mark.parametrize("seeds", long_after(JOBS, always=1))
@pytest.mark.parametrize("strategy", [ASP, BSP, SSP])
def test_records_are_the_same_to_the_byte(
    strategy: type[Strategy], seeds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers and servers that are killed, paused, throttled and cut off, on hosts and without."""
    records: dict[bool, list[bytes]] = {}
    for compiled in (True, False):
        monkeypatch.setattr(twins, "COMPILED", HOSTS if compiled else None)
        runs = [VirtualRun(draw_host_world(4, seed), strategy()) for seed in JOBS[seeds]]
        assert {twins.is_compiled(run.session.clock) for run in runs} == {compiled}
        records[compiled] = [run.data for run in runs]
    assert records[True] == records[False]


def test_both_clocks_fit_their_lab_only() -> None:
    clock: Any = HOSTS.Clock()
    with pytest.raises(TypeError, match="compiled timeline"):
        HOSTS.Clock(Clock().timeline)
    assert twins.is_compiled(clock)
    assert not twins.is_compiled(Clock())
