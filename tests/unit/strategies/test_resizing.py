"""Changes of a job's nodes: when they are settled, and what the Brain sees of nodes that use more than they request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.dlrover import DLRover
from strategies.dlrover.plan import Limits, Need, optimal_plan
from strategies.dlrover.used import at_requests
from strategies.parts.scaling.changes import AddWorkers, Replace
from strategies.parts.scaling.fleet import Fleet
from strategies.parts.scaling.resizing import Resizing
from strategies.parts.scaling.usage import Given, Use
from strategies.protocol import Denied, Launch, NodeId, Repartition, ServerJoined, Started, Woke
from tests.support.laws import played
from tests.support.observed import ObservedRun, Used

GIVEN = Given(cores=2, memory_bytes=10**9)
TWO = AddWorkers(count=2, cores=2, memory_bytes=10**9)


def resizing(num_servers: int = 1) -> tuple[Resizing, Fleet]:
    """Of a job with two workers that has begun; new nodes may take 10 s."""
    fleet = Fleet(GIVEN, GIVEN)
    made = Resizing(fleet, seamless=True, launch_s=10.0, drain_s=1.0)
    started = Started(t=0.0, workers=(0, 1), batch_samples=(4, 4), num_servers=num_servers)
    fleet.start(started)
    made.start(started)
    return made, fleet


def test_newcomers_that_are_late_and_priorities() -> None:
    """A worker that came and died while all rolled back is reported by nobody."""
    made, _ = resizing()
    made.begin(1.0, [TWO])
    made.then(Woke(t=11.0, tag="other"))
    assert made.busy
    made.then(Woke(t=11.5, tag="other"))
    assert (made.busy, made.settled) == (False, False)
    made, _ = resizing()
    launches = made.begin(1.0, [AddWorkers(count=3, cores=2, memory_bytes=10**9, low_priority=1)])
    assert [one.priority for one in launches if isinstance(one, Launch)] == ["normal", "normal", "low"]


@pytest.mark.parametrize(("limit_memory", "memory_bytes"), [(True, 10**9), (False, None)])
def test_new_nodes_have_a_limit_of_memory_unless_it_is_switched_off(
    limit_memory: bool, memory_bytes: int | None
) -> None:
    fleet = Fleet(GIVEN, GIVEN, limit_memory=limit_memory)
    fleet.start(Started(t=0.0, workers=(0, 1), batch_samples=(4, 4), num_servers=1))
    launch = fleet.request("worker", GIVEN)
    assert (launch.node, launch.memory_bytes) == ("worker:2", memory_bytes)
    assert fleet.given[NodeId.worker(2)] == GIVEN


@pytest.mark.parametrize("node", ["worker:0", "server:0"])
def test_who_is_denied_other_cores_stays_with_those_of_before(node: str) -> None:
    """A quota denies the cores of the start, too, as of the only server, which is not lost by that."""
    made, fleet = resizing()
    made.begin(1.0, [TWO])
    fleet.reallocate(NodeId.parse(node), 8)
    denied = Denied(t=2.0, node=node, reason="8 cores asked, 4 in use, cores_total=4")
    fleet.observe_event(denied)
    assert made.then(denied) == []
    assert fleet.present() == dict.fromkeys(fleet.present(), GIVEN)
    assert len(fleet.present()) == 3
    assert (made.busy, made.settled, made.servers.switch.phase) == (True, None, "training")


def test_a_server_that_is_denied_other_cores_is_there_nevertheless() -> None:
    """On a host that has no room for the cores of the start; a server that was launched does not come."""
    made, _ = resizing(num_servers=2)
    made.then(Denied(t=0.0, node="server:0", reason="cpu_cores=2: host:0 has only 1 left"))
    launches = made.begin(1.0, [Replace(node=NodeId.server(1), cores=4, memory_bytes=10**9)])
    assert [one.node for one in launches if isinstance(one, Launch)] == ["server:2"]
    made.then(Denied(t=2.0, node="server:2", reason="no"))
    assert (made.busy, made.settled) == (False, False)


def test_who_replaces_a_server_gets_its_place_in_the_vector() -> None:
    made, fleet = resizing(num_servers=2)
    made.begin(1.0, [Replace(node=NodeId.server(0), cores=4, memory_bytes=10**9)])
    joined = ServerJoined(t=2.0, server=2, incarnation=0)
    fleet.observe_event(joined)
    assert made.then(joined) == [Repartition(servers=(2, 1))]


def had(**cores: int) -> dict[NodeId, Given]:
    return {NodeId(name[:-1], int(name[-1])): Given(cores=own, memory_bytes=1) for name, own in cores.items()}


def used(**cores: float) -> dict[NodeId, Use]:
    return {NodeId(name[:-1], int(name[-1])): Use(cores=own) for name, own in cores.items()}


def cores(uses: Mapping[NodeId, Use]) -> dict[str, float]:
    return {f"{node.role}{node.number}": use.cores for node, use in uses.items()}


def test_who_uses_less_than_the_request_is_taken_as_it_is() -> None:
    """1 of 2 cores and 3 of 1 used, so 2 of 4: what servers need for that is half of what they used."""
    found = at_requests(had(worker0=2, worker1=1, server0=1), used(worker0=1.0, worker1=3.0, server0=0.8))
    assert cores(found) == pytest.approx({"worker0": 1.0, "worker1": 1.0, "server0": 0.4})
    calm = used(worker0=1.5, worker1=0.9, server0=0.8)
    assert at_requests(had(worker0=2, worker1=1, server0=1), calm) == calm


@given(st.floats(0.1, 1.0), st.floats(0.05, 2.0), st.floats(1.0, 8.0))
def test_the_need_per_worker_is_the_same_however_much_faster_idle_cores_made_the_job(
    worker: float, server: float, faster: float
) -> None:
    """Workers that compute all the time need a core; beyond it they and their servers are faster in proportion."""
    found = at_requests(had(worker0=1, server0=4), used(worker0=faster, server0=server * faster))
    assert cores(found) == pytest.approx({"worker0": 1.0, "server0": server})


SMALL: dict[str, Any] = {
    "cores_total": 16,
    "cores_max": 4,
    "worker_cores": 1,
    "first_server_cores": 2,
    "server_cores": 2,
    "workers_max": 12,
    "sample_s": 60.0,
    "min_interval_s": 1.0,
}
"""Four hosts of four cores, as in ``dlrover_hosts_grid``."""


def on_hosts_of_four(factor: float) -> Any:
    """A worker that is alone on its host is ``factor`` times as fast; a full cluster leaves nobody more than its cores.

    Each core of workers takes 0.5 of servers."""

    def uses(has: Mapping[NodeId, float]) -> dict[NodeId, Used]:
        workers = [node for node in has if node.role == "worker"]
        servers = [node for node in has if node.role == "server"]
        each = min(factor, max(1.0, 10 / len(workers)))
        return {
            **{node: Used(each * 0.98) for node in workers},
            **{node: Used(0.5 * each * len(workers) / len(servers)) for node in servers},
        }

    return uses


def plan_of(cores_as: Any, factor: float) -> tuple[int, int]:
    """Workers and servers after the first plan."""
    job = ObservedRun(DLRover(**SMALL, cores_as=cores_as), on_hosts_of_four(factor), max_time_s=150.0)
    assert played(job) == []
    roles = [node.role for node in job.cores]
    return roles.count("worker"), roles.count("server")


def test_idle_cores_of_the_first_hosts_do_not_change_the_plan() -> None:
    """Of 16 cores a worker of 1 takes 1.5 with its updates: 10 of them, and 3 servers of 2."""
    assert plan_of("request", 1.0) == plan_of("limit", 1.0) == (10, 3)
    assert plan_of("request", 4.0) == (10, 3)
    as_used = Need(worker_cores=4 * 0.98, update_cores=4 * 0.5)
    assert optimal_plan(as_used, Limits(cores_total=16, cores_max=4, server_cores=2)).workers == 2
