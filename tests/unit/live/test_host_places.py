"""Places of a job's tasks on emulated hosts: groups, ports and cores of newcomers, and what those leave behind."""

from __future__ import annotations

from collections.abc import Callable
from errno import EBUSY
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.core.node_orders import LaunchOrder
from runtime.live.control.allotting import Allotter
from runtime.live.hosts.latency import RelayFailed
from runtime.live.machines.cgroup_files import QuotaRefused
from runtime.live.machines.machines import HostMachines
from runtime.live.machines.mechanisms import NOTHING
from runtime.live.machines.shared import SharedMachines
from runtime.live.transport.address import Address
from strategies.protocol import NodeId

TASKS = ["server:0", "worker:0", "worker:1"]
HOSTS = {"count": 3, "cpu_cores": 4.0, "real_cores_per_core": 0.1}
WORKER = NodeId.worker(0)


class Group:
    """A control group of a kernel that enforces up to four cores, and memory in pages: it keeps what it was told."""

    def __init__(self, name: str = "") -> None:
        self.name, self.process_files = name, (name,)
        self.cores, self.shares, self.memory_bytes = list[float | None](), list[float | None](), list[int]()
        self.kills = 0
        self.busy = self.removed = False

    def create(self, name: str) -> Group:
        return Group(f"{self.name}/{name}")

    def set_cores(self, cores: float | None) -> float | None:
        if cores is not None and cores > 4:
            raise QuotaRefused(f"{cores:g} cores requested: more than there are")
        self.cores.append(cores)
        return cores

    def set_share(self, frac: float | None) -> float:
        self.shares.append(frac)
        return 0.01 if frac is None else round(frac, 4)

    def set_memory_bytes(self, limit: int) -> int:
        self.memory_bytes.append(limit - limit % 4096)
        return self.memory_bytes[-1]

    def memory_kills(self) -> int:
        return self.kills

    def remove(self, within_s: float | None = None) -> None:
        if self.busy:
            raise OSError(EBUSY, "busy")
        assert not self.removed
        self.removed = True


class Relay:
    """What a relay was asked to listen for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.routes: list[tuple[int, tuple[str, int]]] = []
        self.works = True
        self.ended = False
        for name in ("start_relay", "add_routes", "stop_relay"):
            monkeypatch.setattr(f"runtime.live.hosts.latency.{name}", getattr(self, name))

    def start_relay(self, host: str, routes: list[Any]) -> Relay:
        self.routes += [(route.port, route.target) for route in routes]
        return self

    def add_routes(self, relay: object, host: str, routes: list[Any]) -> None:
        if not self.works:
            raise RelayFailed("the relay cannot listen")
        self.start_relay(host, routes)

    def stop_relay(self, relay: object) -> None:
        self.ended = True


def hosts_of(fields: dict[str, Any] | None = None) -> Hosts:
    return parse_hosts({**HOSTS, **(fields or {})}, 2, 1)


def shared_by(hosts: Hosts, latency: Any = "none") -> SharedMachines:
    """Machines without a kernel: groups that remember, and a network of addresses."""
    shared = SharedMachines("0" * 16, hosts, NOTHING)
    by_groups: dict[str, Any] = {"host_quotas": "cgroup", "allocations": "cgroup", "memory": True}
    shared.mechanisms = msgspec.structs.replace(NOTHING, latency=latency, network=True, **by_groups)
    shared.groups = {"": Group(), **{f"host:{one.number}": Group(f"host-{one.number}") for one in hosts.hosts}}  # type: ignore[dict-item]
    numbers = range(len(hosts.hosts))
    shared.network = SimpleNamespace(  # type: ignore[assignment]
        lab_address="lab",
        addresses=[f"10.0.0.{number}" for number in numbers],
        namespace_fds=[100 + number for number in numbers],
    )
    return shared


def machines_on(
    hosts: Hosts, shared: SharedMachines | None = None, name: str = "", *, requests: bool = False
) -> HostMachines:
    return HostMachines(shared or shared_by(hosts), name, hosts, list(TASKS), 1.0, requests=requests)


def allotter_of(machines: HostMachines, notes: list[tuple[str, dict[str, Any]]]) -> Allotter:
    note: Callable[..., None] = lambda kind, **fields: notes.append((kind, fields))  # noqa: E731
    nothing: Callable[..., None] = lambda *_: None  # noqa: E731
    return Allotter(machines, lambda target: 1.0, nothing, nothing, note, nothing)


def test_a_newcomer_gets_a_place_on_a_host_and_a_port_that_is_nobody_else_s() -> None:
    """The first of those with fewest tasks; server 0 is on the last."""
    machines = machines_on(hosts_of())
    machines.admit("worker:2", not_on=["host:0"])
    machines.admit("server:1")
    worker, server = machines.places["worker:2"], machines.places["server:1"]
    assert (worker.host, worker.namespace_fd, worker.address, worker.port) == ("host:1", 101, "10.0.0.1", 0)
    assert worker.cgroup_files == ("host-1/worker-2",)
    assert (server.host, server.port, server.known_as) == ("host:0", 5001, None)
    assert server.side_path.endswith("server-1")
    assert machines.tasks_on("host:1") == ["worker:1", "worker:2"]
    hosts = hosts_of()
    shared = shared_by(hosts)
    first, second = (machines_on(hosts, shared, name) for name in ("a", "b"))
    for machines in (first, second):
        machines.admit("server:1")
    first.dismiss("server:1")
    first.admit("server:2")
    ports = [[each.places[f"server:{n}"].port for n in range(count)] for each, count in ((first, 3), (second, 2))]
    assert ports == [[5000, 5002, 5004], [5001, 5003]]


def test_a_group_that_a_task_has_left_goes_as_soon_as_its_process_has() -> None:
    """At once if there is none; groups of other tasks, and those in use, stay."""
    machines = machines_on(hosts_of())
    first: Any = machines.groups["worker:0"]
    first.busy = True
    machines.move("worker:0", 1)
    second: Any = machines.groups["worker:0"]
    assert (first.removed, second.name) == (False, "host-1/worker-0-1")
    machines.leave_behind("worker:0")
    machines.leave_behind("worker:1")
    assert not first.removed
    first.busy = False
    machines.leave_behind("worker:0")
    assert first.removed
    machines.move("worker:0", 2)
    assert second.removed
    machines.leave_behind("worker:0")
    others: list[Any] = [machines.groups[task] for task in TASKS]
    assert not any(group.removed for group in others)


def test_cores_are_those_that_a_host_has_left() -> None:
    machines = machines_on(hosts_of())
    notes: list[tuple[str, dict[str, Any]]] = []
    allotter = allotter_of(machines, notes)
    assert allotter.refuses(WORKER, 0.5) == "cpu_cores=0.5: host:0 has only 0.4 left"
    assert allotter.refuses(WORKER, 0.3) is None
    allotter.allocate(WORKER, 0.3, None)
    assert machines.quota("worker:0", 0.5) == pytest.approx(0.15)
    order = LaunchOrder(node="worker:2", pending_s=0.0, cpu_cores=0.3, not_on=("host:2",))
    assert allotter.admit(order).host == "host:1"
    with pytest.raises(ValueError, match=r"^cpu_cores=0.3: no host has so many left \(the most is 0.1\)$"):
        allotter.admit(LaunchOrder(node="worker:3", pending_s=0.0, cpu_cores=0.3, not_on=("host:2",)))
    allotter.keep([NodeId.worker(0), NodeId.worker(1), NodeId.server(0)])
    order = LaunchOrder(node="worker:4", pending_s=0.0, cpu_cores=0.3, not_on=("host:2",))
    assert allotter.admit(order).host == "host:1"
    assert [fields.get("cpu_cores") for _, fields in notes] == [0.3, 0.3, 0.3]


def test_requested_cores_are_booked_and_a_share_of_the_host_but_no_limit() -> None:
    """A host has 0.4 cores. What a plan leaves of a task is a part of what it could use: all of its host."""
    machines = machines_on(hosts_of(), requests=True)
    notes: list[tuple[str, dict[str, Any]]] = []
    allotter = allotter_of(machines, notes)
    allotter.allocate(WORKER, 0.3, None)
    with pytest.raises(ValueError, match=r"^cpu_cores=0.3: no host has so many left \(the most is 0.1\)$"):
        allotter.admit(LaunchOrder(node="worker:2", pending_s=0.0, cpu_cores=0.3, not_on=("host:1", "host:2")))
    group = machines.groups["worker:0"]
    assert (group.shares, group.cores) == ([pytest.approx(0.75)], [])  # type: ignore[attr-defined]
    assert notes == [("Enforced", {"node": "worker:0", "request_cores": pytest.approx(0.3), "by": "cgroup"})]
    assert machines.quota("worker:0", 1.0) is None
    assert machines.quota("worker:0", 0.5) == pytest.approx(0.2)
    assert allotter.own_limits("worker:0") == (None, None), "no more than its host has"
    allotter.allocate(WORKER, None, None)
    assert group.shares[1:] == [None]  # type: ignore[attr-defined]


def test_who_moves_keeps_its_limits_and_requests_the_same_cores() -> None:
    machines = machines_on(hosts_of())
    allotter = allotter_of(machines, [])
    allotter.admit(LaunchOrder(node="worker:2", pending_s=0.0, cpu_cores=0.2, memory_bytes=4096))
    old = machines.groups["worker:2"]
    assert machines.move("worker:2") is not None
    allotter.moved(NodeId.worker(2))
    assert machines.groups["worker:2"] is not old
    moved: Any = machines.groups["worker:2"]
    assert (moved.cores, moved.memory_bytes) == ([0.2], [4096])
    assert allotter.own_limits("worker:2") == (0.2, 4096)
    assert allotter.own_limits("worker:0") == (None, None)
    assert machines.move("worker:0") is not None
    allotter.moved(WORKER)
    assert machines.groups["worker:0"].cores == []  # type: ignore[attr-defined]
    machines = machines_on(hosts_of({"overrides": {1: {"cpu_cores": 8.0}}}), requests=True)
    allotter = allotter_of(machines, [])
    allotter.allocate(WORKER, 0.2, None)
    machines.placement.tasks_on[2].append("server:9")  # so that host 1 has fewest
    machines.placement.host_of["server:9"] = 2
    machines.dismiss("worker:1")
    assert machines.move("worker:0") is not None
    allotter.moved(WORKER)
    assert machines.host_of("worker:0") == "host:1"
    assert machines.groups["worker:0"].shares == [pytest.approx(0.25)]  # type: ignore[attr-defined]
    assert machines.groups["worker:0"].cores == []  # type: ignore[attr-defined]
    machines = machines_on(hosts_of())
    allotter = allotter_of(machines, [])
    allotter.dismiss(WORKER)
    assert allotter.refuses(WORKER, 9.0) is None
    assert machines.move("worker:0") is None
    assert machines.host_of("worker:0") is None
    assert machines.quota("worker:0", 0.5) == 0.5


def test_a_relay_has_a_way_to_every_newcomer_and_to_who_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    relay = Relay(monkeypatch)
    hosts = hosts_of({"latency_ms": 1})
    machines = machines_on(hosts, shared_by(hosts, "relay"))
    machines.admit("server:1")
    machines.admit("worker:2")
    place = machines.move("server:0")
    assert (place.host, place.port) == ("host:0", 5000)
    assert place.known_as == Address(transport="tcp", host="lab", port=6002)
    assert relay.routes == [(6000, ("10.0.0.2", 5000)), (6001, ("10.0.0.0", 5001)), (6002, ("10.0.0.0", 5000))]
    relay.works = False
    with pytest.raises(ValueError, match=r"^server:2: the relay cannot listen$"):
        machines.admit("server:2", cores=0.3)
    assert (machines.host_of("server:2"), machines.placement.cores) == (None, {})
    machines.close()
    assert relay.ended
