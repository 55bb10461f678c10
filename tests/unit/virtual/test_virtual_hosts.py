"""Machines that tasks share, by worked numbers: processors, links, windows that open and close, pauses."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from injectors.plan import Kind
from runtime.live import LiveRuntime
from runtime.virtual import VirtualRuntime
from runtime.virtual.clock import PLAN
from runtime.virtual.costs import FREE
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import Site
from tests.support.clusters import cluster_of

pytestmark = pytest.mark.usefixtures("even_quotas")
MB = 1_000_000

Change = tuple[float, str, Kind, float]


def on_hosts(placement: dict[str, int], cores: float, link: float = math.inf) -> dict[str, Site]:
    """Tasks by the number of their host."""
    return {task: Site(f"host:{number}", cores, link) for task, number in placement.items()}


class Lab:
    """Machines, what happens to them, and when things end."""

    def __init__(self, sites: dict[str, Site], *changes: Change) -> None:
        self.clock = new_clock()
        self.machines = ModelledMachines(self.clock, sites)
        self.ended: dict[Any, float] = {}
        for t, *change in changes:
            self.clock.at(t, PLAN, self.machines.change, *change)

    def at(self, t: float, act: Callable[..., object], *args: object) -> None:
        self.clock.at(t, PLAN, act, *args)

    def then(self, name: object) -> Callable[[], None]:
        return lambda: self.ended.update({name: self.clock.now})

    def work(self, t: float, task: str, core_seconds: float) -> None:
        self.at(t, self.machines.work, task, core_seconds, self.then(task))

    def run(self) -> dict[Any, float]:
        while self.clock.next_s < math.inf:
            self.clock.step()
        return self.ended


def approx(ended: dict[Any, float]) -> Any:
    return pytest.approx(ended, rel=1e-12)


FIELDS = {"count": 3, "cpu_cores": 4.0, "real_cores_per_core": 0.1, "link_mbps": 1000, "latency_ms": 2.0}


REAL = "schema: 1\nvalues: {compute_base_s: 0.1}\n"


@pytest.mark.parametrize(
    ("fields", "base_s"),
    [
        ({"device": {"base_s": 0.5}}, 0.5),
        ({"device": {"base_s": 0.125}}, 0.125),  # less than this processor needs
        ({"hosts": {**FIELDS, "device": {"base_s": 0.5}}}, 0.5),
        ({"hosts": {**FIELDS, "device": {"per_sample_s": 0.25}}, "device": {"base_s": 0.125}}, 2.0),
        ({"nominal_iter_s": 0.06, "hosts": {**FIELDS, "device": {"base_s": 0.5}}}, 0.5),
        ({"nominal_iter_s": 0.06}, 0.06),
    ],
)
def test_delays_in_iterations_are_as_long_live_as_on_the_clock(
    fields: dict[str, Any], base_s: float, tmp_path: Path
) -> None:
    (tmp_path / "real.yaml").write_text(REAL)
    cluster = cluster_of(**{"num_workers": 2, "costs": str(tmp_path / "real.yaml"), "hosts": FIELDS, **fields})
    assert VirtualRuntime(cluster=cluster).base_iter_s(8) == base_s
    assert LiveRuntime(cluster=cluster).base_iter_s(8) == base_s


ALONE = {"worker:0": 0}


@pytest.mark.parametrize(
    ("cores", "changes", "seconds"),
    [
        (1.0, [], 1.0),
        (math.inf, [], 1.0),  # one thread
        (0.4, [], 2.5),
        (0.4, [("worker:0", 0.25)], 10.0),  # of its own allotment, 0.4 cores
        (4.0, [("worker:0", 0.25)], 4.0),
        (4.0, [("host:0", 0.5)], 1.0),  # two cores are left for one thread
        (0.4, [("host:0", 0.5), ("worker:0", 0.25)], 10.0),  # 0.2 cores for both, of which it may use 0.1
    ],
)
def test_a_core_second_takes(cores: float, changes: list[tuple[str, float]], seconds: float) -> None:
    lab = Lab(on_hosts(ALONE, cores), *((0.0, target, "cpu", level) for target, level in changes))
    lab.work(0.0, "worker:0", 1.0)
    assert lab.run() == approx({"worker:0": seconds})


@pytest.mark.parametrize("target", ["worker:0", "host:0"])
def test_who_stands_still_does_nothing(target: str) -> None:
    """From 0.5 to 2.5: work and a message wait for it, an order waits, and who sleeps until 1.0 wakes up at 2.5."""
    sites = on_hosts({"worker:0": 0, "worker:1": 1, "server:0": 2}, 1.0, link=4.0 * MB)
    lab = Lab(sites, (0.5, target, "pause", 1.0), (2.5, target, "pause", 0.0))
    lab.work(0.0, "worker:0", 1.0)
    lab.at(0.0, lab.machines.send, "worker:0", ("worker:0", "server:0"), 4 * MB, 0.0, lab.then("sent"), FREE)
    lab.work(0.0, "worker:1", 1.0)
    lab.at(0.0, lab.machines.sleep, "worker:0", 1.0, lab.then("asleep"))
    lab.at(0.0, lab.machines.sleep, "worker:0", 3.0, lab.then("long asleep"))
    lab.at(1.5, lab.machines.awake, "worker:0", lab.then("ordered"))
    assert lab.run() == approx(
        {"worker:1": 1.0, "asleep": 2.5, "ordered": 2.5, "long asleep": 3.0, "sent": 3.0, "worker:0": 3.0}
    )
    assert list(lab.ended)[1:3] == ["asleep", "ordered"]
