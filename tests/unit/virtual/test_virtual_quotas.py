"""Quotas with a period, and the work at the ends of messages, by worked numbers."""

from __future__ import annotations

import math

import pytest

from runtime.cluster.hosts import USUAL_PERIOD_S
from runtime.virtual.clock import MACHINE
from runtime.virtual.compiled._hosts import Fluid
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.quotas import quota_of
from runtime.virtual.machines.sites import Site
from tests.unit.virtual.test_virtual_hosts import ALONE, Lab, approx, on_hosts


@pytest.mark.parametrize(
    ("pause_s", "core_s", "seconds"),
    [
        (1.0, 0.0040, 0.004),  # short: at full speed
        (1.0, 0.0060, 0.006),
        (1.0, 0.0100, 0.015),  # long: c / q - P, here 25 ms - 10 ms
        (1.0, 0.0400, 0.090),
        (0.005, 0.0400, 0.095),  # only what a pause of 5 ms has saved: c / q - g
        (0.005, 0.0015, 0.0015),
        (0.0, 0.0040, 0.010),
    ],
)
def test_what_was_not_used_of_a_quota_is_used_at_full_speed(pause_s: float, core_s: float, seconds: float) -> None:
    """0.4 cores: 4 ms in 10 ms. The first work empties the bucket, and after the pause comes another."""
    lab = Lab(on_hosts(ALONE, 0.4))
    lab.work(0.0, "worker:0", 0.1)
    assert lab.run() == approx({"worker:0": 0.24})
    lab.work(0.24 + pause_s, "worker:0", core_s)
    assert lab.run()["worker:0"] - (0.24 + pause_s) == pytest.approx(seconds)


@pytest.mark.parametrize("late_s", [0.0, 89_286.0, 1e6])
def test_a_model_with_quotas_goes_on_however_late_it_is(late_s: float) -> None:
    """Late in a long run 1e-9 core-seconds of many cores are used sooner than a float can tell: time must
    pass. Ten tasks that could use 96 cores each share 96, again and again, in either twin of the machines."""
    clock = new_clock()
    sites = {f"worker:{n}": Site("host:0", 96.0) for n in range(10)}
    machines = ModelledMachines(clock, sites, (), (), lambda task: 96.0)
    done = []

    def rest(task: str, left: int) -> None:
        done.append(clock.now)
        if left:
            machines.sleep(task, 0.01, lambda: work(task, left - 1))

    def work(task: str, left: int) -> None:
        machines.compute(task, 0.01 + 0.0001 * left, lambda: rest(task, left))

    for task in sites:
        clock.at(late_s, MACHINE, work, task, 19)
    for _ in range(20_000):
        if clock.next_s == math.inf:
            break
        clock.step()
    assert len(done) == 10 * 20


@pytest.mark.parametrize("late_s", [0.0, 89_286.0, 1e6])
@pytest.mark.parametrize("cores", [200.0, 1000.0, 5000.0])
def test_a_quota_is_used_up_however_late_it_is(late_s: float, cores: float) -> None:
    """96 cores have 0.96 core-seconds saved, which whoever uses more will have used up at a time that is a float."""
    for n in range(100):
        begun_s = late_s + 0.01 * n
        host = Fluid({"cores": cores + n})
        host.set_quota(begun_s, "cores", quota_of(96.0, USUAL_PERIOD_S))
        host.start(begun_s, "work", 1e6, ("cores",))
        assert host.rate("work") == cores + n
        for _ in range(3):
            if host.rate("work") == 96.0:
                break
            assert host.completed(host.next_s) == []
        assert host.rate("work") == 96.0
