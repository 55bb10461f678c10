"""Nodes that come to emulated hosts and leave them, on the virtual clock: worked numbers, and who lives where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.core.quota import Quota
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.lab import VirtualLab
from runtime.virtual.machines.sites import sites_of_hosts
from strategies.protocol import (
    Allocate,
    AnyCommand,
    Apply,
    Arrived,
    Compute,
    Denied,
    Joined,
    Launch,
    Lost,
    Observed,
    Restart,
    Restored,
    Retire,
    Started,
    Strategy,
    Wake,
    Woke,
)
from tests.support.harness import make_job
from tests.support.labs import run_alone
from tests.unit.virtual.test_virtual_session import Tape, session

pytestmark = pytest.mark.usefixtures("even_quotas")


class Scripted(Strategy):
    """Everybody computes one sample at a time; gives each command of a script at its time."""

    watches_use = True

    def __init__(self, *script: tuple[float, AnyCommand]) -> None:
        self.script = script
        self.compute_s: dict[int, list[float]] = {}
        self.denied: dict[str, str] = {}
        self.joined: dict[int, tuple[float, str | None]] = {}
        self.heard: list[Any] = []
        self.retired: set[int] = set()
        self.use: dict[str, Any] = {}

    def handle(self, event: Any) -> Sequence[AnyCommand]:
        self.heard.append(event)
        match event:
            case Started():
                timers = [Wake(at_s=t, tag=str(t)) for t in dict.fromkeys(t for t, _ in self.script)]
                return [*timers, *(Compute(worker=worker, num_samples=1) for worker in event.workers)]
            case Woke():
                commands = [command for t, command in self.script if str(t) == event.tag]
                self.retired |= {int(one.node[7:]) for one in commands if isinstance(one, Retire)}
                return commands
            case Arrived(grad=grad):
                self.compute_s.setdefault(grad.worker, []).append(event.timings.compute_s)
                again = [] if grad.worker in self.retired else [Compute(worker=grad.worker, num_samples=1)]
                return [Apply(grads=(grad.id,), weights=(1.0,)), *again]
            case Joined():
                self.joined[event.worker] = (event.t, event.place)
                return [Compute(worker=event.worker, num_samples=1)]
            case Restored():
                return [Compute(worker=worker, num_samples=1) for worker in event.workers]
            case Denied():
                self.denied[event.node] = event.reason
            case Observed():
                self.use = {use.node: use for use in event.nodes}
        return []


FIELDS = {"count": 2, "cpu_cores": 2.0, "placement": [["worker:0"], ["server:0"]]}
COSTS = Costs(compute_base_s=0.5, launch_s=1.0)


def played(
    strategy: Scripted,
    *windows: Disturbance,
    costs: Costs = COSTS,
    max_time_s: float = 12.0,
    telemetry_every_s: float | None = None,
    scheduler: Any = None,
    **fields: Any,
) -> VirtualSession:
    job = make_job(num_workers=1, num_servers=1, global_batch_samples=1, max_time_s=max_time_s)
    plan, hosts = Schedule(build_plan("test", 0, 100.0, windows)), parse_hosts({**FIELDS, **fields}, 1, 1)
    about: Any = {"actuator": plan, "hosts": hosts, "telemetry_every_s": telemetry_every_s}
    run, _ = session(strategy, job, costs, device=None, spec={"scheduler": scheduler}, **about)
    assert run_alone(run).status == "done"
    return run


def launch(number: int, **about: Any) -> Launch:
    return Launch(node=f"worker:{number}", **about)


def test_newcomers_compute_with_their_cores_and_say_where_they_are() -> None:
    """Half a second of work on a quarter core takes 2 s, on half of one 1 s. A host with a core less left is not it."""
    strategy = Scripted(
        (0.0, Allocate(node="server:0", cpu_cores=1.0)),
        (1.0, launch(1, cpu_cores=0.25)),
        (6.5, Allocate(node="worker:1", cpu_cores=0.5)),
    )
    run = played(strategy)
    assert strategy.joined == {1: (2.0, "host:0")}
    assert strategy.compute_s[1] == pytest.approx([2.0, 2.0, 1.25, 1.0, 1.0, 1.0, 1.0])
    assert set(strategy.compute_s[0]) == {0.5}
    assert run.places.placement is not None
    assert run.places.placement.cores == {"server:0": 1.0, "worker:1": 0.5}


def test_who_does_not_fit_is_denied_with_the_reason() -> None:
    strategy = Scripted(
        (1.0, launch(1, cpu_cores=1.5)),
        (2.0, launch(2, cpu_cores=1.5)),
        (3.0, launch(3, cpu_cores=1.5)),
        (4.0, Launch(node="server:1", not_on=("host:0", "host:1"))),
        (5.0, Allocate(node="worker:1", cpu_cores=2.5)),
        (6.0, Retire(node="worker:1")),
        (6.0, launch(4, cpu_cores=1.0)),
    )
    played(strategy)
    assert strategy.denied == {
        "worker:3": "did not join: cpu_cores=1.5: no host has so many left (the most is 0.5)",
        "server:1": "did not join: not_on: excludes every host",
        "worker:1": "cpu_cores=2.5: host:0 has only 2 left",
    }
    assert {worker: place for worker, (_, place) in strategy.joined.items()} == {1: "host:0", 2: "host:1", 4: "host:0"}


SPREAD, TOGETHER = [["worker:0"], ["server:0"]], [["worker:0", "server:0"]]


@pytest.mark.parametrize(
    ("placement", "empty", "until_s", "pending_s", "joined"),
    [
        (SPREAD, 2, 5.0, 0.0, (3.0, "host:1")),
        (TOGETHER, 1, 5.0, 0.0, (6.0, "host:1")),
        (TOGETHER, 1, 2.5, 0.0, (3.5, "host:1")),
        (TOGETHER, 1, 5.0, 6.0, (9.0, "host:1")),
        (TOGETHER, 1, 5.0, 2.5, (6.0, "host:1")),
    ],
)
def test_who_is_restarted_avoids_a_dead_host_or_waits_there_as_newcomers_do(
    placement: list[list[str]], empty: int, until_s: float, pending_s: float, joined: tuple[float, str]
) -> None:
    """The emptiest host is dead from 1 on. A launch takes a second, once there is a place and the host is back."""
    dead = Disturbance(start_s=1.0, end_s=until_s, target=f"host:{empty}", kind="kill", magnitude=1.0)
    strategy = Scripted((2.0, Restart(node="worker:0")))
    scheduler = Quota(cores_total=99, pending_s=pending_s)
    run = played(strategy, dead, count=empty + 1, placement=placement, scheduler=scheduler)
    assert strategy.joined == {0: joined}
    assert sum(isinstance(event, Lost) for event in strategy.heard) == 1
    assert isinstance(run.record, Tape)
    assert len(run.record.noted("Exited")) == 1


def shared_host(cores: float) -> Hosts:
    return parse_hosts({"count": 1, "cpu_cores": cores}, 1, 1)


def test_newcomers_of_two_jobs_share_their_host_and_leave_nothing_there() -> None:
    """Three who compute all the time on one core, from 2 s on: work of half a second takes 1.5 s."""
    job = make_job(num_workers=1, num_servers=1, global_batch_samples=1, max_time_s=8.0)
    hosts = shared_host(1.0)
    lab = VirtualLab(sites_of_hosts(hosts, COSTS))
    strategies = {"grows": Scripted((1.0, launch(1)), (6.0, Retire(node="worker:1"))), "stays": Scripted()}
    for name, strategy in strategies.items():
        lab.add(
            name,
            lambda clock, tenancy, strategy=strategy: session(
                strategy, job, COSTS, device=None, hosts=hosts, clock=clock, tenancy=tenancy
            )[0],
        )
    lab.run()
    assert strategies["grows"].joined == {1: (2.0, "host:0")}
    for name, worker in (("grows", 0), ("grows", 1), ("stays", 0)):
        assert strategies[name].compute_s[worker][1] == pytest.approx(1.5 if worker else 1.0)
    assert strategies["stays"].compute_s[0][-1] == pytest.approx(1.0, abs=0.01)
    assert lab.machines is not None
    assert lab.machines.sites == {}
