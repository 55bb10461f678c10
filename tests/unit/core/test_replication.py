"""Replicas of the servers: what workers keep for them, what may be sent, and what nobody waits for without need."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core import inputs
from runtime.core.job import ReplicateOrder
from runtime.core.replication import Replication
from strategies.protocol import Drop, Grad, NodeId, ProtocolError, Replicate, Replicated, Send, ServerJoined, ServerLost
from tests.support.harness import Rig, apply, compute, make_job
from tests.unit.core.test_transfers import Sender


@pytest.fixture
def at() -> Rig:
    """One server and a replica; two workers, of which the first has announced gradient 0, and it is applied."""
    size = {"num_workers": 2, "global_batch_samples": 2, "num_samples": 100, "num_replicas": 1}
    found = Rig(Sender(), make_job(**size)).start()
    found.core.receive(0.0, inputs.Evaluated(0, 0.0, {}))
    found.say(*compute(0, 1))
    found.ready(0)
    found.say(Send(grads=(0,)))
    found.arrive(0)
    found.say(apply(0))
    return found


def followed(at: Rig, version: int, grad: int | None = None, server: int = 1) -> None:
    at.core.receive(at.at(None), inputs.Replicated(server, version, grad))


class Wire:
    """A port that keeps what replicas are sent."""

    def __init__(self) -> None:
        self.sent: list[ReplicateOrder] = []
        self.released: list[tuple[int, tuple[int, ...]]] = []

    def replicate(self, order: ReplicateOrder) -> None:
        self.sent.append(order)

    def release(self, worker: int, grads: tuple[int, ...]) -> None:
        self.released.append((worker, grads))


def grad(number: int, worker: int = 3) -> Grad:
    return Grad(id=number, worker=worker, incarnation=0, iteration=0, version=0, samples=1, assigned_samples=1)


def test_workers_let_go_of_what_no_replica_needs() -> None:
    wire = Wire()
    replication = Replication(wire, (1, 2))  # type: ignore[arg-type]
    for number in range(4):
        replication.ready(grad(number, worker=number % 2))
    replication.applied((0,), 1)
    replication.applied((1,), 2)
    replication.replicated(1, 2, 1)
    assert wire.released == []
    replication.replicated(2, 1, 0)
    assert wire.released == [(0, (0,))]
    replication.dropped((3,))
    assert wire.released[1:] == [(1, (3,))]
    replication.lost(2)
    assert wire.released[2:] == [(1, (1,))]
    replication.lost(1)
    replication.applied((2,), 3)
    assert wire.released[3:] == [(0, (2,))], "nobody is there who could need it"


def test_a_copy_says_which_gradients_come_too_late() -> None:
    """Of those on their way: what is applied by now is in the copy, what is not is needed."""
    wire = Wire()
    replication = Replication(wire, (1,))  # type: ignore[arg-type]
    for number in range(3):
        replication.ready(grad(number))
    replication.applied((0,), 1)
    replication.applied((1,), 2)
    for number in (1, 2):
        replication.replicate(Replicate(server=1, grad=number), 2)
    replication.replicate(Replicate(server=1), 2)
    assert wire.sent[-1].overtaken == (1,)
    replication.replicated(1, 2, None)
    assert list(replication.asked) == [(1, 2)], "its worker does not send it any more if it has not begun"


def unkept(at: Rig, what: str) -> None:
    match what:
        case "followed":
            at.say(Replicate(server=1, grad=0))
            followed(at, 1, 0)
        case "lost":
            at.lose(0)
        case "dropped":
            at.ready(1)
            at.say(Drop(grads=(1,)))


@pytest.mark.parametrize(("what", "grad"), [("followed", 0), ("lost", 0), ("dropped", 1), ("never", 7)])
def test_what_nobody_keeps_cannot_be_sent(at: Rig, what: str, grad: int) -> None:
    unkept(at, what)
    with pytest.raises(ProtocolError, match=f"no worker keeps gradient {grad}"):
        at.say(Replicate(server=1, grad=grad))


@pytest.mark.parametrize("server", [0, 2])
def test_only_replicas_that_are_there_receive(at: Rig, server: int) -> None:
    with pytest.raises(ProtocolError, match=r"no replica has this number \(there are 1\)"):
        at.say(Replicate(server=server))


def test_a_lost_replica_is_told_once_and_comes_back(at: Rig) -> None:
    for _ in range(2):  # its next process dies before it is there
        at.server_is_lost(9.0, inputs.ServerLost(1, 0, "killed", holding=False))
    at.core.receive(12.0, inputs.ServerJoined(1, 2))
    assert [event.holding for event in at.received(ServerLost)] == [False]
    assert [(event.server, event.incarnation) for event in at.received(ServerJoined)] == [(1, 2)]
    followed(at, 1, server=0)
    assert at.received(Replicated) == []


def test_who_takes_over_is_no_replica_and_the_others_come_again(at: Rig) -> None:
    at.lose_server()
    at.core.receive(20.0, inputs.ServerJoined(0, 1))
    assert at.received(ServerJoined) == []  # all are halted
    at.restore(shares=((NodeId.server(1), 1.0),))
    assert [(event.server, event.incarnation) for event in at.received(ServerJoined)] == [(0, 1)]
    assert at.core.executor.replication.followed == {0: 0}
    with pytest.raises(ProtocolError, match="no worker keeps gradient 0"):
        at.say(Replicate(server=0, grad=0))


def ended(at: Rig, how: str) -> None:
    match how:
        case "arrived":
            followed(at, 1, 0)
        case "worker lost":
            at.lose(0, restarting=False)
        case "replica lost":
            at.server_is_lost(9.0, inputs.ServerLost(1, 0, "killed", holding=False))


@pytest.mark.parametrize("how", ["arrived", "worker lost", "replica lost"])
def test_what_is_on_its_way_is_waited_for_until_it_cannot_come(at: Rig, how: str) -> None:
    at.lose(1, restarting=False)
    assert not at.core.watch.awaits()
    at.say(Replicate(server=1, grad=0))
    assert at.core.watch.awaits()
    ended(at, how)
    assert not at.core.watch.awaits()


def test_a_job_begins_with_equal_replicas() -> None:
    size: dict[str, Any] = {"num_replicas": 2}
    at = Rig(Sender(), make_job(**size)).start()
    started = at.lines[0].event
    assert (started.num_servers, started.replicas) == (1, (1, 2))
    assert [str(node) for node in at.core.members.layout.servers] == ["server:0", "server:1", "server:2"]
    assert at.core.members.layout.holders == (NodeId.server(0),)
