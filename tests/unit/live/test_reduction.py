"""What an aggregator sums, whatever the order in which things happen; and what servers receive of it. No process."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.core.job import ApplyOrder, SendOrder, SumOrder
from runtime.live.control.port import LivePort
from runtime.live.tasks.aggregator import Outbound
from runtime.live.tasks.reduction import ReduceBuffer, Sum
from runtime.live.transport.address import Address
from runtime.live.transport.messages import Exclude, Gather, LinkLost, Message, Push, Summed, Update, decode
from strategies.protocol import NodeId

AT = Address(transport="tcp", host="127.0.0.1", port=5000)


class Bench:
    """A gathering, and the sums that it has completed."""

    def __init__(self) -> None:
        self.made: list[Sum] = []
        self.reduction = ReduceBuffer(4, self.made.append)

    def come(self, *grads: int) -> None:
        for grad_id in grads:
            vector = self.reduction.buffer()
            vector[:] = grad_id
            self.reduction.hold(grad_id, vector)

    def gather(self, number: int, *members: int) -> None:
        self.reduction.gather(Gather(grad_id=number, members=members))

    @property
    def parts(self) -> list[list[float]]:
        return [[float(part[0]) for part in made.parts] for made in self.made]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("first", [(), (3,), (3, 1, 2)])
def test_parts_are_in_the_order_of_the_members(bench: Bench, first: tuple[int, ...]) -> None:
    bench.come(*first)
    bench.gather(9, 1, 2, 3)
    bench.come(*[grad for grad in (3, 2, 1) if grad not in first])
    assert [(made.grad_id, made.members) for made in bench.made] == [(9, [1, 2, 3])]
    assert bench.parts == [[1.0, 2.0, 3.0]]
    assert not bench.reduction.here


def test_who_is_left_out_completes_the_sum_of_the_others(bench: Bench) -> None:
    bench.gather(9, 1, 2)
    bench.come(1)
    bench.reduction.exclude([2])
    assert bench.parts == [[1.0]]
    bench.come(2)
    assert not bench.reduction.here, "it comes late, and is discarded"
    bench.come(2)
    assert list(bench.reduction.here) == [2], "once"


def test_one_that_is_here_is_left_out_too(bench: Bench) -> None:
    bench.gather(9, 1, 2)
    bench.come(1)
    bench.reduction.exclude([1])
    assert len(bench.reduction._spare) == 1
    bench.come(2)
    assert bench.parts == [[2.0]]


def test_a_sum_of_nobody_is_none_and_a_complete_one_stays_whole(bench: Bench) -> None:
    bench.gather(8, 1, 2)
    bench.reduction.exclude([1, 2])
    bench.gather(9, 3, 4)
    bench.come(3, 4)
    bench.reduction.exclude([3])
    assert bench.parts == [[3.0, 4.0]]


def test_after_a_reset_nothing_is_known_and_no_memory_is_lost(bench: Bench) -> None:
    bench.gather(9, 1, 2)
    bench.come(1)
    bench.reduction.reset()
    assert not bench.reduction.here
    bench.come(2, 1)
    assert not bench.made
    bench.reduction.reset()
    assert len(bench.reduction._spare) == 2
    assert bench.reduction.num_bytes == 16


class Wire:
    """All that a port calls: it keeps what is sent."""

    now = 0.0

    def __init__(self) -> None:
        self.sent: list[tuple[Any, Any]] = []
        self.port = LivePort(self, self, self, self, self, lambda target, t: (0.0, 0.0))  # type: ignore[arg-type]

    def send(self, key: NodeId, message: Any) -> None:
        self.sent.append((key, message))

    def send_encoded(self, key: NodeId, data: bytes) -> None:
        self.sent.append((key, decode(data[4:])))

    @property
    def holders(self) -> tuple[NodeId, ...]:
        return (NodeId.server(0),)

    def address_for(self, caller: NodeId, called: NodeId) -> Address:
        return AT

    def after(self, call: Callable[[], None]) -> list[tuple[Any, Any]]:
        self.sent.clear()
        call()
        self.port.flush()
        return list(self.sent)


def order_of(*grads: int) -> ApplyOrder:
    return ApplyOrder(version=1, grads=grads, weights=tuple(grad / 10 for grad in grads), lr=1.0, samples=4)


@pytest.fixture
def wire() -> Wire:
    """Gradients 1 and 2 of workers 1 and 2 are sum 9."""
    wire = Wire()
    members = tuple(SendOrder(grad_id=k, worker=k, incarnation=0) for k in (1, 2))
    order = SumOrder(grad_id=9, via="aggregator:0", members=members)
    sent = wire.after(lambda: wire.port.send_sum(order))
    assert sent == [
        (NodeId("aggregator", 0), Gather(grad_id=9, members=(1, 2))),
        (NodeId.worker(1), Push(grad_id=1, via=AT)),
        (NodeId.worker(2), Push(grad_id=2, via=AT)),
    ]
    return wire


def test_servers_apply_the_sum_once_with_the_weight_of_its_members(wire: Wire) -> None:
    order = ApplyOrder(version=1, grads=(0, 1, 2), weights=(0.5, 0.25, 0.25), lr=1.0, samples=4, vectors=2)
    ((server, update),) = wire.after(lambda: wire.port.apply(order))
    assert server == NodeId.server(0)
    assert isinstance(update, Update)
    assert (update.apply.grads, update.apply.weights) == ((0, 9), (0.5, 0.25))
    ((_, update),) = wire.after(lambda: wire.port.apply(order_of(1, 2)))
    assert update.apply.grads == (1, 2), "a sum is used once"


def test_a_member_that_is_dropped_is_left_out_and_servers_drop_only_what_they_know(wire: Wire) -> None:
    sent = wire.after(lambda: wire.port.drop((1,)))
    assert sent == [(NodeId("aggregator", 0), Exclude(grads=(1,)))]
    sent = wire.after(lambda: wire.port.drop((2, 9)))
    assert sent == [(NodeId.server(0), Update(drop=(9,))), (NodeId("aggregator", 0), Exclude(grads=(2,)))]


def test_what_was_not_sent_is_discarded_with_its_sums(wire: Wire) -> None:
    wire.port.discard()
    ((_, update),) = wire.after(lambda: wire.port.apply(order_of(1)))
    assert update.apply.grads == (1,)
    assert np.isclose(update.apply.weights, 0.1).all()


LONG_S = 20.0
"""Nobody waits for so long unless something is broken."""


class Links:
    """In the place of the connections to servers: keeps what is pushed."""

    def __init__(self) -> None:
        self.grad = np.zeros(2, np.float32)
        self.generation = 3
        self.pushed: list[tuple[int, list[float]]] = []
        self.gone = False

    def push(self, ticket: int) -> None:
        if self.gone:
            raise ConnectionResetError("server 0 is gone")
        self.pushed.append((ticket, self.grad.tolist()))


class Sending:
    """An outbound over such links."""

    def __init__(self) -> None:
        self.links = Links()
        self.outbound = Outbound(self.links)  # type: ignore[arg-type]

    def put(self, number: int, *parts: float, generation: int = 3, since_s: float = 0.0) -> Sum:
        made = Sum(number, list(range(len(parts))), since_s, [np.full(2, part, np.float32) for part in parts])
        self.outbound.put((generation, made))
        return made

    def said(self, count: int) -> list[Message | Sum]:
        """So many things that were done, whenever they are."""
        found: list[Message | Sum] = []
        while len(found) < count:
            assert select.select([self.outbound.wakes], [], [], LONG_S)[0], found
            found += self.outbound.take()
        return found


@pytest.fixture
def sending() -> Sending:
    return Sending()


def test_all_parts_are_in_the_sum_once_and_their_buffers_come_back(sending: Sending) -> None:
    made = sending.put(9, 1.0, 2.0, 4.0)
    said, back = sending.said(2)
    assert sending.links.pushed == [(9, [7.0, 7.0])]
    assert isinstance(said, Summed)
    assert (said.grad_id, said.members) == (9, (0, 1, 2))
    assert back is made


def test_the_time_of_a_sum_begins_with_its_order(sending: Sending) -> None:
    sending.put(9, 1.0, since_s=time.perf_counter() - 100.0)
    said, _ = sending.said(2)
    assert isinstance(said, Summed)
    assert said.send_s >= 100.0


def test_a_sum_of_another_generation_is_not_sent_and_its_buffers_come_back(sending: Sending) -> None:
    made = sending.put(9, 1.0, generation=2)
    assert sending.said(1) == [made]
    assert sending.links.pushed == []


def test_a_server_that_is_gone_is_said_and_the_next_sum_is_tried(sending: Sending) -> None:
    sending.links.gone = True
    made = sending.put(8, 1.0)
    assert sending.said(2) == [LinkLost(generation=3, reason="server 0 is gone"), made]
    sending.links.gone = False
    sending.put(9, 2.0)
    assert len(sending.said(2)) == 2
    assert sending.links.pushed == [(9, [2.0, 2.0])]
