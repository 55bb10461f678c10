"""Whole jobs under a plan that disturbs what is under way, by worked numbers: throttled, cut off, stopped, killed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.cluster.device import DeviceProfile
from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.virtual.costs import Costs
from strategies.basic.bsp import BSP
from strategies.protocol import Strategy
from tests.support.invariants import problems
from tests.support.labs import run_alone
from tests.support.restarting import Restarting
from tests.unit.virtual.test_virtual_session import (
    IDEAL,
    QUARTER,
    session,
    virtual_job,
)

pytestmark = pytest.mark.usefixtures("even_quotas")
QUARTER_WORK = Costs(compute_base_s=0.25)
FOREVER = 1e4
PLACES = [["worker:0", "worker:1"], ["worker:2", "worker:3", "server:0"], ["server:1"]]
"""Tasks of three hosts."""


def planned(*windows: tuple[str, str, float, float, float]) -> Schedule:
    """Of (kind, target, start_s, end_s, magnitude)."""
    disturbances = [
        Disturbance(kind=kind, target=target, start_s=start_s, end_s=end_s, magnitude=magnitude)  # type: ignore[arg-type]
        for kind, target, start_s, end_s, magnitude in windows
    ]
    return Schedule(build_plan("test", 0, FOREVER, disturbances))


class Job:
    """One epoch of rounds of four workers, and what it left."""

    def __init__(
        self,
        *windows: tuple[str, str, float, float, float],
        strategy: Strategy | None = None,
        costs: Costs = IDEAL,
        device: DeviceProfile | None = QUARTER,
        rounds: int = 16,
        hosts: Hosts | None = None,
        lease_s: float = math.inf,
    ) -> None:
        job, about = virtual_job(4, 4 * rounds, num_servers=2), {"hosts": hosts, "lease_s": lease_s}
        plan = planned(*windows)
        self.session, self.tape = session(strategy or BSP(), job, costs, device=device, actuator=plan, **about)
        self.outcome: Outcome = run_alone(self.session)
        assert (self.outcome.status, problems(self.tape.plain())) == ("done", [])

    @property
    def t(self) -> float:
        return self.outcome.t

    def times(self, kind: str, **about: Any) -> list[float]:
        """Of events or notes of one type, those with the given fields."""
        lines = [(line["t"], line.get("event") or line["note"]) for line in self.tape.plain()]
        return [t for t, received in lines if received["type"] == kind and about.items() <= received.items()]


@pytest.mark.parametrize(
    ("window", "later_s"),
    [((0.0, 4.0), 3.0), ((0.125, 0.375), 0.1875), ((0.25, 0.5), 0.1875), ((0.25, 1.25), 0.75), ((4.0, 9.0), 0.0)],
)
@pytest.mark.parametrize(
    ("kind", "costs", "device"), [("cpu", QUARTER_WORK, None), ("gpu", QUARTER_WORK, None), ("gpu", IDEAL, QUARTER)]
)
def test_rounds_take_as_long_as_the_worker_that_has_a_quarter(
    window: tuple[float, float], later_s: float, kind: str, costs: Costs, device: DeviceProfile | None
) -> None:
    """Of its core or its GPU, also in the middle of an iteration: while it lasts, 3/4 of the time is lost."""
    assert Job((kind, "worker:1", *window, 0.25), costs=costs, device=device).t == pytest.approx(4.0 + later_s)


LEASE = Costs(pending_s=1.0, launch_s=0.5, control_s=0.01)


def test_who_stands_still_for_longer_than_the_lease_is_fenced() -> None:
    """At 3.0; its next incarnation, due at 4.5, is paused as well until the window closes, and starts then."""
    job = Job(("pause", "worker:2", 1.0, 9.0, 1.0), costs=LEASE, lease_s=2.0)
    assert job.times("Fenced", role="worker", id=2, incarnation=0) == job.times("Exited") == job.times("Lost") == [3.0]
    assert job.times("Joined", worker=2, incarnation=1) == [pytest.approx(9.0 + 0.5 + 0.01)]


@pytest.mark.parametrize(("host", "before_s", "after_s"), [("host:0", 0.5, 0.25), ("host:2", 0.25, 0.5)])
def test_who_starts_on_another_host_leaves_what_is_on_the_gpus_there(
    host: str, before_s: float, after_s: float
) -> None:
    """Worker 0 goes from host 0 to host 2 at 1.1 s; half of the GPUs of one of them is taken until 3 s."""
    job = Job(
        ("gpu", host, 0.0, 3.0, 0.5),
        costs=QUARTER_WORK,
        device=None,
        hosts=parse_hosts({"count": 3, "placement": PLACES, "cpu_cores": None}, 4, 2),
        strategy=Restarting(rule="asp", orders=("worker:0@1.1",)),
        rounds=24,
    )
    mine = [event for event in job.tape.received("Arrived") if event["grad"]["worker"] == 0]
    for begin_s, end_s, took_s in ((0.0, 1.1, before_s), (1.1, 3.0, after_s), (3.6, 9.0, 0.25)):
        found = [event["timings"]["compute_s"] for event in mine if begin_s < event["t"] <= end_s]
        assert len(found) > 1
        assert found == pytest.approx([took_s] * len(found))
