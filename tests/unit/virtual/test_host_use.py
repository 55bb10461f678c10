"""What hosts are used for, period by period, from the sums of their machines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from runtime.record.cluster import HostRow
from runtime.virtual.cluster.use import HostUse


class Machines:
    """Two of them, whose sums are set by hand; a task on the first."""

    def __init__(self) -> None:
        self.clock = SimpleNamespace(catch_up=lambda: None)
        self.sites = {"job/worker:0": SimpleNamespace(name="host:0")}
        self.core_s = 0.0
        self.sent_received = {"host:0": (0.0, 0.0), "host:1": (0.0, 0.0)}

    def core_seconds(self, task: str) -> float:
        return self.core_s

    def bytes_of(self, site: str) -> tuple[float, float]:
        return self.sent_received[site]


def sampled() -> tuple[Machines, HostUse]:
    machines = Machines()
    return machines, HostUse(cast("Any", machines), ["host:0", "host:1"])


def test_each_period_has_what_was_done_in_it() -> None:
    """The first machine sends to the second."""
    machines, use = sampled()
    for end_s, core_s, num_bytes in ((2.0, 3.0, 100.0), (6.0, 4.0, 500.0)):
        machines.core_s = core_s
        machines.sent_received = {"host:0": (num_bytes, 0.0), "host:1": (0.0, num_bytes)}
        rows = use.sample(end_s, [1, 0])
        cores, rate = (1.5, 50.0) if end_s == 2.0 else (0.25, 100.0)
        assert rows == [HostRow(end_s, 0, 1, cores, 0.0, rate), HostRow(end_s, 1, 0, 0.0, rate, 0.0)]


def test_a_period_without_length_has_no_rows() -> None:
    """The end of all may come with a sample; what was done by then is in the next period that has a length."""
    machines, use = sampled()
    assert use.sample(0.0, [1, 0]) == []
    machines.core_s = 2.0
    assert [row.cpu_cores for row in use.sample(4.0, [1, 0])] == [0.5, 0.0]
    assert use.sample(4.0, [0, 0]) == []
