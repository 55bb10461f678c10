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
from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.model_state import NoModelState
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.protocol import Strategy
from tests.support.invariants import problems
from tests.support.labs import run_alone
from tests.unit.virtual.test_virtual_session import (
    IDEAL,
    QUARTER,
    RESTART,
    Strike,
    ledger,
    session,
    unregister,
    uses,
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


def hosts_of(num_workers: int = 4, num_servers: int = 2, **fields: Any) -> Hosts:
    return parse_hosts({"count": 3, "placement": PLACES, **fields}, num_workers, num_servers)


class Job:
    """One epoch of rounds of four workers, and what it left."""

    def __init__(
        self,
        *windows: tuple[str, str, float, float, float],
        strategy: Strategy | None = None,
        costs: Costs = IDEAL,
        device: DeviceProfile | None = QUARTER,
        rounds: int = 16,
        num_bytes: int = 0,
        hosts: Hosts | None = None,
        lease_s: float = math.inf,
        strikes: tuple[tuple[float, Strike], ...] = (),
        **changes: Any,
    ) -> None:
        strategy, job = strategy or BSP(), virtual_job(4, 4 * rounds, **{"num_servers": 2, **changes})
        without = num_bytes or not job.checkpoint_every_s
        model_state = NoModelState(num_bytes // 4, None) if without else ledger(job, strategy)
        about: dict[str, Any] = {"model_state": model_state, "hosts": hosts, "lease_s": lease_s}
        self.session, self.tape = session(strategy, job, costs, device=device, actuator=planned(*windows), **about)
        for at_s, hit in strikes:
            self.session.clock.at(at_s, MACHINE, hit, self.session)
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


def test_windows_on_hosts_reach_all_gpus_there() -> None:
    hosts = hosts_of(cpu_cores=None)
    job = Job(
        ("gpu", "host:0", 0.0, FOREVER, 0.5), costs=QUARTER_WORK, device=None, hosts=hosts, strategy=ASP(data="even")
    )
    assert [job.times("Arrived")[:6]] == [[0.25, 0.25, 0.5, 0.5, 0.5, 0.5]]
    assert Job(("gpu", "host:0", 0.0, 2.0, 0.5), costs=QUARTER_WORK, device=None, hosts=hosts).t == pytest.approx(5.0)


MB = 1_000_000
PAYLOAD_MB_S = 125 * 1448 / 1514
"""Of a gigabit."""


def test_a_round_on_hosts_takes_what_the_links_say() -> None:
    """4 MB each way in two halves: host 1 sends its half to host 0 and host 2 all of its own, each for four workers.

    Host 0's two workers need 8 MB down and up; host 2's server 8 MB up and down; host 1 sends 4 MB to host 0 and
    receives 4 MB from host 2 for its own workers. All of that goes at once, so hosts 0 and 2 are busy for 8 MB each.
    """
    job = Job(hosts=hosts_of(link_mbps=1000), num_bytes=4 * MB, rounds=4)
    assert job.t == pytest.approx(4 * (0.25 + 2 * 8 / PAYLOAD_MB_S))


CHECKPOINTS = {"checkpoint_every_s": 1.0, "epochs": 3, "rounds": 8}
"""32 samples through 3 epochs, with the ledger of their uses; 90 ms to read a checkpoint."""
LEASE = Costs(pending_s=1.0, launch_s=0.5, control_s=0.01)


def test_who_stands_still_for_longer_than_the_lease_is_fenced() -> None:
    """At 3.0; its next incarnation, due at 4.5, is paused as well until the window closes, and starts then."""
    job = Job(("pause", "worker:2", 1.0, 9.0, 1.0), costs=LEASE, lease_s=2.0)
    assert job.times("Fenced", role="worker", id=2, incarnation=0) == job.times("Exited") == job.times("Lost") == [3.0]
    assert job.times("Joined", worker=2, incarnation=1) == [pytest.approx(9.0 + 0.5 + 0.01)]


def test_who_is_lost_before_the_coordinator_hears_of_its_silence_is_lost_once() -> None:
    """An accident at 2.99, when the coordinator is busy until 3.0 or later; the lease ends at 3.0."""
    costs = Costs(decision_s=0.5, launch_s=0.25)
    strikes = ((2.99, unregister("worker:0")),)
    window = ("pause", "worker:0", 1.0, 4.0, 1.0)
    job = Job(window, costs=costs, strategy=ASP(data="even"), rounds=8, lease_s=2.0, strikes=strikes)
    assert job.times("Fenced") == []
    assert len(job.times("Lost", worker=0)) == 1


BACK_S = 0.5 + 0.01
"""Launch and report, from the end of the window on; the pending time of the cost model is not that of the plan."""


def test_a_killed_server_comes_back_when_the_plan_schedules_it() -> None:
    job = Job(("kill", "server:0", 2.3, 4.6, 1.0), costs=RESTART, **CHECKPOINTS)
    assert job.times("ServerLost", server=0) == [2.3]
    assert job.times("Restored") == [pytest.approx(4.6 + BACK_S + 0.09)]
    assert uses(job.session) == {3.0}


@pytest.mark.parametrize(
    ("own", "back_s"), [((2.0, 3.0), 4.0), ((2.0, 6.0), 6.0), ((4.0, 6.0), 6.0), ((0.5, 1.0), 4.0)]
)
def test_windows_of_a_task_and_of_its_host_are_one_where_they_touch(own: tuple[float, float], back_s: float) -> None:
    """Host 0 is down from 1 s to 4 s."""
    windows = [("kill", "host:0", 1.0, 4.0, 1.0), ("kill", "worker:0", *own, 1.0)]
    job = Job(*windows, costs=RESTART, hosts=hosts_of(), **CHECKPOINTS)
    assert job.times("Exited", id=0) == [min(1.0, own[0])]
    assert job.times("Joined", worker=0) == [pytest.approx(back_s + BACK_S)]
    assert job.times("Joined", worker=1) == [pytest.approx(4.0 + BACK_S)]


def test_an_accident_meanwhile_does_not_bring_it_back_earlier() -> None:
    window = ("kill", "worker:0", 1.0, 9.0, 1.0)
    job = Job(window, costs=RESTART, strikes=((2.0, unregister("worker:0")),), **CHECKPOINTS)
    assert job.times("Joined", worker=0) == [pytest.approx(9.0 + BACK_S)]
    window = ("kill", "server:0", 1.0, 9.0, 1.0)
    job = Job(window, costs=RESTART, strikes=((2.0, unregister("server:0", "server:1")),), **CHECKPOINTS)
    assert job.times("Restored") == [pytest.approx(9.0 + BACK_S + 0.09)]
