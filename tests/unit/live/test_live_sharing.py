"""Prevention among live jobs: the limits of the virtual clock reach the actuators of processes, and end again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from runtime.cluster.hosts import parse_hosts
from runtime.core import host_sharing
from runtime.core.inputs import GradientArrived
from runtime.core.layout import Layout
from runtime.live.cluster.cluster import LiveCluster
from runtime.live.control import tenant as live_tenant
from runtime.live.control.allotting import Allotter
from runtime.live.control.job_resources import JobResources
from runtime.live.control.session import LiveSession
from runtime.live.control.tenant import LiveTenant
from runtime.live.machines.mechanisms import NOTHING
from runtime.live.machines.shared import SharedMachines
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import Pace
from strategies.basic.bsp import BSP
from strategies.cluster.placements.pack import Pack
from strategies.cluster.policies.fifo import Fifo
from strategies.protocol import (
    Asked,
    Demand,
    Grant,
    JobLoad,
    JobRequest,
    JobState,
    NodeId,
    Reserve,
    Share,
    TaskLoad,
    Timings,
)
from tests.support.clusters_of_jobs import machines_of
from tests.support.neighbours import HOSTS, Neighbours, Saying
from tests.unit.live.test_allotting import Scene
from tests.unit.live.test_host_places import machines_on, shared_by

WORKER = NodeId.worker(0)
MORE = Reserve(demands=(Demand(node="server:0", cpu_cores=0.5),), worth_s=9.0)


class Halves:
    """Leaves a half of everything to all tasks of job b; keeps the question."""

    takes = True

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def answer(self, asked: Asked) -> Grant:
        self.asked.append(asked)
        (b,) = (job for job in asked.jobs if job.job == "b")
        halves = {task.node: (task.cpu_cores / 2, task.link_bytes_per_s / 2) for task in b.tasks}
        shares = {("b", node): Share(node=node, cpu_cores=c, link_bytes_per_s=r) for node, (c, r) in halves.items()}
        return Grant(ok=True, shares=shares)


class Measured:
    """Loads that were measured before."""

    def __init__(self, load: JobLoad) -> None:
        self.load, self.known = load, True

    def sample(self, t: float) -> None:
        """Everything was read before."""

    def measured(self, *_: Any, **__: Any) -> JobLoad:
        return self.load


def session_on(scene: Allotter, notes: list[dict[str, Any]], host_of: Any) -> LiveSession:
    """A session with an allotter and two workers that receive from one server."""
    session = LiveSession.__new__(LiveSession)
    session.allotter = scene
    session.started, session.recorded, session._driven_s = True, False, 0.0
    session.record = cast("Any", SimpleNamespace(note=lambda t, kind, **fields: notes.append({"type": kind, **fields})))
    members = SimpleNamespace(layout=Layout.initial(2, 1))
    session.coordinator = cast("Any", SimpleNamespace(members=members, place_of=host_of))
    return session


def test_live_jobs_get_the_limits_of_the_virtual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the same question, at the boundary: quotas of control groups, and rates of sockets."""
    policy = Halves()
    lab = Neighbours(prevention=policy)
    lab.add("a", Saying({2.0: MORE, 4.0: Reserve()}))
    lab.add("b", BSP(), num_parameters=100_000)
    lab.run()
    modelled = lab.tapes["b"].noted("Limited")
    assert len(modelled) == 6, "three tasks of b are limited, and then no more"

    loads = {job.job: job for job in policy.asked[0].jobs}
    monkeypatch.setattr(host_sharing, "Loads", lambda tenant: Measured(loads[tenant.name]))
    hosts = parse_hosts({"count": 2, "cpu_cores": 2.0, "link_mbps": 1000.0, "placement": HOSTS}, 2, 1)
    machines = machines_on(hosts, shared_by(hosts), "b")
    sent: list[tuple[NodeId, Any]] = []
    notes: list[dict[str, Any]] = []
    nothing: Any = lambda *_, **__: None  # noqa: E731
    allotter = Allotter(
        machines, lambda target: 1.0, lambda node, message: sent.append((node, message)), nothing, nothing, pytest.fail
    )
    session = session_on(allotter, notes, machines.host_of)
    tenants = {
        name: SimpleNamespace(name=name, coordinator=session.coordinator, limit=session.limited) for name in ("a", "b")
    }
    sharing = host_sharing.HostSharing(policy.asked[0].hosts, Halves(), lambda: 0.0, nothing)
    for name, tenant in tenants.items():
        sharing.enter(name, cast("Any", tenant))
    sharing.reserve("a", 2.0, MORE)
    sharing.reserve("a", 4.0, Reserve())

    assert notes == [{"type": "Limited", **note} for _, note in modelled]
    for task in ("server:0", "worker:0", "worker:1"):
        begin, end = (note for note in notes if note["node"] == task)
        assert end["cpu_cores"] is end["link_bytes_per_s"] is None
        group: Any = machines.groups[task]
        assert group.cores == ([begin["cpu_cores"], None] if task != "server:0" else []), "it costs nothing there"
        connections = 2 if task == "server:0" else 1
        rates = [message.bytes_per_s for node, message in sent if str(node) == task]
        assert rates == [round(begin["link_bytes_per_s"] / connections), None]


def test_the_smaller_limit_is_in_force_and_who_has_left_has_none() -> None:
    """What its own job gives a node, and what others leave it; only the former is its own limit."""
    scene = Scene()
    scene.allotter.allocate(WORKER, 2.0, 3e6)
    scene.allotter.leave(WORKER, 0.5, 1e6)
    scene.allotter.ready(WORKER)
    assert scene.allotter.own_limits("worker:0") == (2.0, None)
    assert scene.machines.quota("worker:0", 0.5) == 0.25
    scene.allotter.allocate(WORKER, 0.25, 5e5)
    scene.allotter.leave(WORKER, None, None)
    assert scene.group("worker:0").cores == [2.0, 0.5, 0.25, 0.25]
    assert [message for _, message in scene.sent] == [
        Pace(bytes_per_s=rate) for rate in (3_000_000, 1_000_000, 1_000_000, 500_000, 500_000)
    ]
    scene.allotter.allocate(WORKER, None, None)
    assert scene.group("worker:0").cores[-1] is None
    assert scene.sent[-1] == (WORKER, Pace())
    scene, notes = Scene(), list[dict[str, Any]]()
    session = session_on(scene.allotter, notes, lambda node: None)
    session.limited("worker:7", 0.5, 1e6)
    assert (notes, scene.sent) == ([], [])
    session.limited("worker:0", 0.5, 1e6)
    scene.allotter.dismiss(WORKER)
    assert scene.machines.left == {}
    scene.sent.clear()
    scene.allotter.ready(WORKER)
    assert scene.sent == []


def test_a_limit_that_is_left_again_is_set_once_and_one_that_cannot_be_set_ends_the_job() -> None:
    """And one that no quota can hold is as small as a quota can be."""
    scene = Scene()
    for cores in (0.0001, 0.0001, None, None):
        scene.allotter.leave(WORKER, cores, None)
    assert scene.group("worker:0").cores == [0.01, None]
    assert scene.sent == []
    scene.allotter.leave(WORKER, 5.0, None)
    assert "worker:0: its cores could not be limited for other jobs: 5 cores" in scene.failures[0]


def tenant_of(*, collective: str = "", bits: int = 32, paced: bool = False, pids: Any = ()) -> LiveTenant:
    """A job with two workers and two servers, which hold 768 and 256 of 1024 parameters."""
    layout = Layout.initial(2, 2, (3.0, 1.0))
    roster = SimpleNamespace(pids=pids, replicas=(0, 1))
    supervisor = SimpleNamespace(members=SimpleNamespace(layout=layout), num_parameters=1024, roster=roster)
    job = SimpleNamespace(
        session=SimpleNamespace(supervisor=supervisor, coordinator=None),
        spec=SimpleNamespace(collective=collective, transfer_bits=bits),
        machines=SimpleNamespace(unlimited=lambda task: 0.5),
        paced=paced,
    )
    return LiveTenant(cast("Any", job))


def test_a_server_that_starts_again_has_used_what_its_predecessor_has(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks: dict[int, float | None] = {7: 1.0}
    monkeypatch.setattr(live_tenant, "cpu_s", clocks.get)
    pids = [("server:0", 7)]
    tenant = tenant_of(pids=pids)
    assert tenant.core_seconds("server:0") == 1.0
    clocks[7] = 1.5
    assert tenant.core_seconds("server:0") == 1.5
    pids.clear()
    assert tenant.core_seconds("server:0") == 1.5, "it has no process now"
    pids.append(("server:0", 8))
    clocks[8] = 0.25
    assert tenant.core_seconds("server:0") == 1.75
    clocks[8] = None
    assert tenant.core_seconds("server:0") == 1.75, "it is gone, which nobody has noticed yet"


def test_bytes_are_those_on_the_way_and_the_sleep_of_a_paced_device_is_no_work() -> None:
    """Its 0.1 core-seconds at half a core; one that takes longer than the device is measured."""
    assert tenant_of().servers() == {"server:0": 3072, "server:1": 1024}
    assert tenant_of(bits=16).traffic() == (2048.0, 0.0)
    assert tenant_of(collective="ring").servers() == {}
    assert tenant_of(collective="ring").traffic() == (4096.0, 0.0), "2 (n - 1) / n times the vector, with n = 2"
    timings = Timings(data_s=0.1, compute_s=1.0, injected_s=0.2, cpu_s=0.1)
    assert tenant_of(paced=True).worked_s(0, timings, 8) == pytest.approx(0.2)
    assert tenant_of().worked_s(0, timings, 8) == pytest.approx(0.9)
    assert tenant_of(paced=True).worked_s(0, replace(timings, overrun_s=0.1), 8) == pytest.approx(0.9)


def test_gradients_are_measured_before_the_coordinator_knows_them() -> None:
    heard: list[Any] = []
    session = session_on(cast("Any", None), [], None)
    session.failure = None
    session.loads = cast("Any", SimpleNamespace(arrived=lambda given: heard.append("measured")))
    session._drive = lambda call: heard.append("driven")  # type: ignore[method-assign]
    session.receive(GradientArrived(0, 0, Timings()))
    assert heard == ["measured", "driven"]


class Job:
    """A job on host 0 that only says to what its worker is limited."""

    def __init__(self, name: str, resources: JobResources) -> None:
        self.ask, self.limits, self.over = resources.reservations, list[float | None](), False
        coordinator = SimpleNamespace(name=name, place_of=lambda node: "host:0")
        self.session = SimpleNamespace(
            loads=None, coordinator=coordinator, limited=lambda node, cores, rate: self.limits.append(cores)
        )
        self.nodes = SimpleNamespace(elsewhere=None, rehoused=None)
        self.begun = self.trained = None

    def resume(self, hosts: Any) -> None:
        """It continues where it was."""


@pytest.mark.parametrize("ends", ["trained", "ended", "left"])
def test_what_a_job_of_a_cluster_has_reserved_ends_with_it(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it has trained, when nothing of it remains (it may have crashed), or when it gives its places back."""

    def load_of(tenant: LiveTenant) -> Measured:
        task = TaskLoad(node="worker:0", host="host:0", cpu_cores=1.0, link_bytes_per_s=0.0, peak_cores=1.0, iter_s=1.0)
        return Measured(JobLoad(job=cast("Any", tenant.coordinator).name, tasks=(task,)))

    monkeypatch.setattr(host_sharing, "Loads", load_of)
    loop, running, ended = Loop(), dict[str, Job](), dict[str, Any]()
    lab: Any = SimpleNamespace(loop=loop, machines=SharedMachines("0" * 16, None, NOTHING), interrupted_by=0)
    lab.job = running.get

    def add(name: str, make: Any, **about: Any) -> None:
        running[name], ended[name] = make(JobResources(name, loop, lab.machines, cast("Any", None))), about["ended"]

    lab.add = add
    notes: list[tuple[str, str]] = []
    record: Any = SimpleNamespace(note=lambda t, kind, **fields: notes.append((kind, fields["job"])))
    begin = {name: lambda places, resources, name=name: Job(name, resources) for name in ("a", "b")}
    jobs: Any = {name: SimpleNamespace(begin=one, end=lambda outcome: None, crashed=str) for name, one in begin.items()}
    requests = [JobRequest(job=name, submit_s=0.0, gpus=1) for name in jobs]
    about: Any = {"prevention": Halves(), "jobs": jobs, "use_every_s": 60.0}
    cluster = LiveCluster(lab, machines_of(2), requests, Fifo(), Pack(), record, **about)
    cluster._submit()
    a, b = running["j0"], running["j1"]
    assert a.ask is not None
    assert a.ask.reserve(0.0, MORE).ok
    assert b.limits == [0.5]
    if ends == "trained":
        cast("Any", a.trained)()
    elif ends == "ended":
        ended["j0"](SimpleNamespace(status="failed"))
    else:
        lab.interrupted_by = 2  # the automaton has not ordered it to leave, and hears nothing of it
        cluster._on_left(JobState(request=requests[0], number=0, since_s=0.0))
    assert b.limits == [0.5, None]
    assert [kind for kind, job in notes if job == "a" and kind in ("Reserved", "Released")] == ["Reserved", "Released"]
    loop.close()
