"""What an aggregator sums, whatever the order in which things happen; and what servers receive of it. No process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.core.job import ApplyOrder, SendOrder, SumOrder
from runtime.live.control.port import LivePort
from runtime.live.tasks.reduction import ReduceBuffer, Sum
from runtime.live.transport.address import Address
from runtime.live.transport.messages import Exclude, Gather, Push, Update, decode
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


# ---- what the coordinator's orders become ---------------------------------------------------------------------------


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
