"""Launch, Retire, Repartition and Allocate, one by one: what is ordered, what is refused, and what follows."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core import inputs
from runtime.core.quota import Quota
from strategies.protocol import (
    Allocate,
    Denied,
    Launch,
    Lost,
    NodeId,
    ProtocolError,
    Repartition,
    Restart,
    Restored,
    Retire,
    ServerJoined,
    ServerLost,
)
from tests.support.harness import Puppet, Rig, compute, make_job


def rig_of(scheduler: Any = None, **changes: Any) -> Rig:
    """Three workers and two servers that have begun; a second passes with whatever is said."""
    size = {"num_workers": 3, "num_servers": 2, "global_batch_samples": 3, "num_samples": 60, "epochs": 2}
    options = {} if scheduler is None else {"scheduler": scheduler}
    rig = Rig(Puppet(), make_job(**{**size, **changes}), **options).start()
    rig.core.receive(0.0, inputs.Evaluated(0, 0.0, {}))
    return rig


def nodes(rig: Rig) -> list[str]:
    return [str(node) for node in rig.core.members.layout.nodes]


def server_joins(rig: Rig, number: int) -> None:
    rig.core.receive(rig.at(None), inputs.ServerJoined(number, 0))


def server_dies(rig: Rig, number: int, *, holding: bool = False) -> None:
    rig.core.receive(rig.at(None), inputs.ServerLost(number, 0, "killed", "killed", holding))


def evict(rig: Rig, node: str) -> None:
    rig.core.receive(rig.at(None), inputs.TimerFired(f"runtime:evict:{node}"))


@pytest.mark.parametrize(("taken", "following"), [("worker:2", "worker:3"), ("server:1", "server:2")])
def test_a_number_is_never_given_again(taken: str, following: str) -> None:
    rig = rig_of()
    rig.say(Launch(node=taken))
    assert [(event.node, event.reason) for event in rig.received(Denied)] == [
        (taken, f"the number is taken; the next one is {following}")
    ]
    assert rig.launches == []


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (Launch(node="scorer:0"), "scorer:0 is neither a worker nor a server"),
        (Retire(node="worker:7"), "there is no such node"),
        (Allocate(node="worker:7", cpu_cores=1.0), "there is no such node now"),
        (Restart(node="server:2"), "there is no such node"),
        (Repartition(servers=()), "0 servers and 0 shares: give one share for each server"),
        (Repartition(servers=(0, 0)), "2 servers and 2 shares: give one share for each server"),
        (Repartition(servers=(0, 1), shares=(1.0,)), "2 servers and 1 shares: give one share for each server"),
        (Repartition(servers=(0, 5)), "server:5: there is no such node"),
        (Repartition(servers=(0, 1), shares=(1.0, 0.0)), "share 0.0: must be positive and finite"),
        (Repartition(servers=(0, 1), shares=(1.0, float("nan"))), "share nan: must be positive and finite"),
    ],
    ids=str,
)
def test_what_cannot_be_breaks_a_law(command: Any, complaint: str) -> None:
    rig = rig_of()
    with pytest.raises(ProtocolError) as refused:
        rig.say(command)
    assert str(refused.value) == f"{command}: {complaint}"
    assert rig.launches + rig.retired + rig.moves == []
    assert not rig.core.course.halted


def test_replicas_have_no_servers() -> None:
    rig = rig_of(num_servers=0)
    with pytest.raises(ProtocolError, match="with topology=allreduce there are no servers"):
        rig.say(Launch(node="server:0"))


@pytest.mark.parametrize("node", ["worker:3", "server:2"])
@pytest.mark.parametrize(
    ("how", "reasons"),
    [("gives up", ["did not join: crash"]), ("evicted", ["taken away by the cluster"]), ("taken back", [])],
)
def test_a_newcomer_that_does_not_come_is_denied_unless_nobody_wants_it_any_more(
    how: str, reasons: list[str], node: str
) -> None:
    rig = rig_of()
    rig.say(Launch(node=node, priority="low"))
    if how == "evicted":
        evict(rig, node)
    elif how == "taken back":
        rig.say(Retire(node=node))
        assert rig.retired == [(2.0, node)]
    elif node == "worker:3":
        rig.core.receive(rig.at(None), inputs.WorkerLost(3, 0, "crash", restarting=False))
    else:
        rig.core.receive(rig.at(None), inputs.ServerLost(2, 0, "crash", "killed", holding=False))
    assert [(event.node, event.reason) for event in rig.received(Denied)] == [(node, reason) for reason in reasons]
    assert not rig.received(Lost, ServerLost)
    assert node not in nodes(rig)
    assert not rig.core.watch.awaits()


def test_who_is_needed_stays() -> None:
    rig = rig_of(num_workers=1, global_batch_samples=1)
    rig.say(Retire(node="worker:0"), Retire(node="server:1"))
    reason = "holds parameters; divide them among others first (Repartition)"
    assert [(event.node, event.reason) for event in rig.received(Denied)] == [
        ("worker:0", "is the last worker"),
        ("server:1", reason),
    ]
    assert not rig.retired


def evicted_holder(evict_notice: bool = True) -> Rig:
    """Server 1 of low priority holds a half of the parameters, and worker 0 computes."""
    rig = rig_of(Quota(pending_s=7.0, evict_after_s=10.0, evict_notice=evict_notice))
    rig.say(Launch(node="server:2", priority="low"))
    server_joins(rig, 2)
    rig.say(Repartition(servers=(0, 2)))
    rig.restore(shares=((NodeId.server(0), 1.0), (NodeId.server(2), 1.0)))
    rig.say(*compute(0))
    return rig


@pytest.mark.parametrize("evict_notice", [True, False])
def test_a_server_that_holds_parameters_stores_them_if_it_can_and_starts_again_elsewhere(evict_notice: bool) -> None:
    rig = evicted_holder(evict_notice)
    saved = len(rig.checkpoints)
    evict(rig, "server:2")
    assert len(rig.checkpoints) - saved == evict_notice
    assert [order[1:] for order in rig.restarts] == [("server:2", 7.0)]
    assert rig.noted("Evicting") == [{"node": "server:2", "pending_s": 7.0, "notice": evict_notice}]
    assert rig.core.course.halted
    evict(rig, "server:2")
    assert len(rig.restarts) == 1, "one at a time"
    rig.core.receive(rig.at(None), inputs.ServerLost(2, 0, "restarted by the strategy", "restarted", True))
    [lost] = rig.received(ServerLost)
    assert (lost.server, lost.cause, lost.holding, lost.reason) == (2, "evicted", True, "taken away by the cluster")
    assert "server:2" in nodes(rig)


def test_a_server_that_was_lost_before_it_could_be_evicted_is_evicted_when_it_is_back() -> None:
    """The one that was to store its part has died, or another one has: all go back first."""
    rig = evicted_holder()
    evict(rig, "server:2")
    server_dies(rig, 0, holding=True)
    assert [lost.cause for lost in rig.received(ServerLost)] == ["killed"]
    rig.restore(shares=((NodeId.server(0), 1.0), (NodeId.server(2), 1.0)))
    assert [node for _, node, _ in rig.restarts] == ["server:2"] * 2
    rig.core.receive(rig.at(None), inputs.ServerLost(2, 0, "restarted by the strategy", "restarted", True))
    assert [lost.cause for lost in rig.received(ServerLost)] == ["killed", "evicted"]
    rig.restore(shares=((NodeId.server(0), 1.0), (NodeId.server(2), 1.0)))
    assert len(rig.restarts) == 2


def test_evictions_wait_while_the_parameters_move() -> None:
    """Server 2 is about to hold some: it is taken away when it does, and then the worker."""
    rig = rig_of()
    rig.say(Launch(node="server:2", priority="low"), Launch(node="worker:3", priority="low"))
    server_joins(rig, 2)
    rig.join(3)
    rig.say(Repartition(servers=(0, 2)))
    evict(rig, "server:2")
    evict(rig, "worker:3")
    assert not rig.retired + rig.restarts
    shares = ((NodeId.server(0), 1.0), (NodeId.server(2), 1.0))
    rig.restore(shares=shares)
    assert [node for _, node, _ in rig.restarts] == ["server:2"]
    assert not rig.retired
    rig.core.receive(rig.at(None), inputs.ServerLost(2, 0, "restarted by the strategy", "restarted", True))
    rig.restore(shares=shares)
    assert [name for _, name in rig.retired] == ["worker:3"]


def test_a_repartition_stores_halts_and_ends_in_restored() -> None:
    rig = rig_of()
    rig.say(Launch(node="server:2"))
    with pytest.raises(ProtocolError, match="server:2 has not joined yet"):
        rig.say(Repartition(servers=(2,)))
    rig = rig_of()
    rig.say(Launch(node="server:2"))
    server_joins(rig, 2)
    [joined] = rig.received(ServerJoined)
    assert (joined.server, joined.place) == (2, None)
    rig.say(*compute(0))
    rig.say(Repartition(servers=(2, 0), shares=(3.0, 1.0)))
    assert (rig.moves, rig.checkpoints[-1][0]) == ([(4.0, (("server:2", 3.0), ("server:0", 1.0)))], 0)
    assert rig.noted("Repartitioning") == [{"shares": {"server:2": 3.0, "server:0": 1.0}}]
    rig.say(*compute(1))
    assert list(rig.orders) == [0], "commands are void until all have read their ranges"
    shares = ((NodeId.server(2), 3.0), (NodeId.server(0), 1.0))
    rig.restore(shares=shares)
    assert [event.servers for event in rig.received(Restored)] == [(2, 0)]
    assert rig.core.members.layout.shares == shares
    rig.say(*compute(0, 1, 2))
    assert {order.worker for order in rig.orders.values()} == {0, 1, 2}


def test_who_holds_nothing_is_not_restarted() -> None:
    rig = rig_of()
    rig.say(Launch(node="server:2"))
    server_joins(rig, 2)
    with pytest.raises(ProtocolError, match="it holds nothing; retire it, and launch another"):
        rig.say(Restart(node="server:2"))


def test_an_allocation_counts_instead_of_what_the_node_had() -> None:
    """4 cores in all: 3 and 1; then 2 and 2, but not 2 and 3."""
    rig = rig_of(Quota(cores_total=4))
    rig.say(Launch(node="worker:3", cpu_cores=3.0))
    rig.join(3)
    rig.say(Allocate(node="worker:0", cpu_cores=1.0))
    rig.say(Allocate(node="worker:3", cpu_cores=2.0))
    rig.say(Allocate(node="worker:0", cpu_cores=2.0, link_bytes_per_s=1e6))
    rig.say(Allocate(node="worker:0", cpu_cores=3.0))
    assert [event.reason for event in rig.received(Denied)] == ["3 cores asked, 2 in use, cores_total=4"]
    assert [about[1:] for about in rig.allocations] == [
        ("worker:0", 1.0, None),
        ("worker:3", 2.0, None),
        ("worker:0", 2.0, 1e6),
    ]


def test_what_a_runtime_cannot_allocate_is_denied_and_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_of()
    monkeypatch.setattr(rig, "book", lambda order: "no rates here")
    rig.say(Allocate(node="worker:0", cpu_cores=2.0, link_bytes_per_s=1e6))
    assert [(event.node, event.reason) for event in rig.received(Denied)] == [("worker:0", "no rates here")]
    assert rig.noted("Allocated") == []
    assert rig.core.elastic.cores.of(NodeId.worker(0)) is None


def test_what_an_operator_changes_is_in_the_record_one_by_one() -> None:
    rig = rig_of()
    rig.core.receive(rig.at(None), inputs.Operated("join", "worker:3"))
    rig.core.receive(rig.at(None), inputs.Operated("leave", "worker:0"))
    old, new = rig_of().noted("LayoutChanged")[0]["nodes"], ["server:0", "server:1", "worker:1", "worker:2", "worker:3"]
    found = [(about["version"], about["nodes"]) for about in rig.noted("LayoutChanged")]
    assert found == [(0, old), (1, [*old, "worker:3"]), (2, new)]
