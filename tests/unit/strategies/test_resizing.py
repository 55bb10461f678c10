"""Changes of a job's nodes are settled when all have come, when they are denied, or when they take too long."""

from __future__ import annotations

import pytest

from strategies.parts.scaling.changes import AddWorkers, Replace
from strategies.parts.scaling.fleet import Fleet
from strategies.parts.scaling.resizing import Resizing
from strategies.parts.scaling.usage import Given
from strategies.protocol import Denied, Launch, NodeId, Repartition, ServerJoined, Started, Woke

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
