"""What tasks and hosts use on the virtual clock: finished work, and the part of what is in progress."""

from __future__ import annotations

import pytest

from runtime.cluster.hosts import Placement, parse_hosts
from runtime.virtual.control.usage import Usage
from runtime.virtual.costs import Costs
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import PAYLOAD_FRAC, sites_of, sites_of_hosts, tasks_of
from strategies.protocol import NodeUse

FIELDS = {"count": 2, "cpu_cores": 2.0, "link_mbps": 8.0, "placement": [["server:0"], ["worker:0", "worker:1"]]}


class World:
    def __init__(self) -> None:
        hosts = parse_hosts(FIELDS, 2, 1)
        self.clock = new_clock()
        sites = sites_of(hosts, Costs(), 2, 1)
        self.machines = ModelledMachines(self.clock, sites, (), sites_of_hosts(hosts, Costs()))
        self.usage = Usage(lambda: tasks_of(2, 1), self.machines, Placement(hosts))
        assert self.usage.sample(0.0) == (0.0, ()), "the first only starts to count"

    def at(self, t: float) -> dict[str, NodeUse]:
        self.clock.at(t, 9, lambda: None)
        while self.clock.now < t:
            self.clock.step()
        period_s, nodes = self.usage.sample(t)
        assert period_s > 0
        return {node.node: node for node in nodes}


def test_work_in_progress_counts_up_to_now() -> None:
    """A thread computes one core-second per second: 3 s of work are 1 in every second, and nothing after the end."""
    world = World()
    world.machines.work("worker:0", 3.0, lambda: None)
    seen = [world.at(t) for t in (1.0, 2.0, 4.0, 5.0)]
    assert [use["worker:0"].cpu_cores for use in seen] == pytest.approx([1.0, 1.0, 0.5, 0.0])
    assert [use["host:1"].cpu_cores for use in seen] == pytest.approx([1.0, 1.0, 0.5, 0.0])
    assert seen[0]["host:0"].cpu_cores == 0.0


def test_bytes_are_those_on_the_wire_of_either_host() -> None:
    """8 Mbit/s are 1e6 bytes per second on the wire; a task on the same host sends nothing over it."""
    world = World()
    world.machines.send("worker:0", ("worker:0", "server:0"), int(1e6 * PAYLOAD_FRAC), 0.0, lambda: None)
    world.machines.send("worker:1", ("worker:1", "worker:0"), 1_000_000, 0.0, lambda: None)
    half = world.at(0.5)
    assert half["host:1"].out_bytes_per_s == pytest.approx(1e6)
    assert half["host:0"].in_bytes_per_s == pytest.approx(1e6)
    assert (half["host:0"].out_bytes_per_s, half["host:1"].in_bytes_per_s) == (0.0, 0.0)
    whole = world.at(2.0)
    assert whole["host:1"].out_bytes_per_s == pytest.approx(0.5e6 / 1.5, rel=1e-5)


def test_with_machines_of_its_own_a_task_works_on_all_of_its_cores() -> None:
    clock = new_clock()
    machines = ModelledMachines(clock, sites_of(None, Costs(), 1, 1), [])
    usage = Usage(lambda: ["worker:0"], machines, None, lambda task: (4.0, 4.0))
    usage.sample(0.0)
    machines.work("worker:0", 0.5, lambda: None)
    clock.at(1.0, 9, lambda: None)
    while clock.now < 1.0:
        clock.step()
    _, [use] = usage.sample(1.0)
    assert (use.cpu_cores, use.limit_cores) == (pytest.approx(0.5 * 4.0), 4.0)
