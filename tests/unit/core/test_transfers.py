"""Gradients that workers hold: when they may travel, what ends them, and what waits for them."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from runtime.core import inputs
from runtime.core.transfers import Transfers
from strategies.protocol import (
    Apply,
    Arrived,
    Compute,
    Drop,
    Failed,
    Grad,
    ProtocolError,
    Ready,
    Restored,
    Send,
    Timings,
)
from tests.support.harness import Puppet, Rig, apply, compute, make_job


class Sender(Puppet):
    """A puppet whose workers hold what they have computed."""

    needs = frozenset({Compute, Apply, Send, Drop})


def rig(num_workers: int = 2, num_samples: int = 100, **changes: Any) -> Rig:
    size = {"num_workers": num_workers, "global_batch_samples": num_workers, "num_samples": num_samples}
    found = Rig(Sender(), make_job(**size, **changes)).start()
    found.core.receive(0.0, inputs.Evaluated(0, 0.0, {}))  # nobody waits for the first evaluation
    return found


@pytest.fixture
def at() -> Rig:
    """Both workers compute; the first holds gradient 0."""
    found = rig()
    found.say(*compute(0, 1))
    found.ready(0, num_bytes=700)
    return found


def test_it_travels_when_it_is_sent_and_is_used_when_it_has_arrived(at: Rig) -> None:
    at.say(Send(grads=(0,)))
    assert [(order.grad_id, order.worker) for _, order in at.sent] == [(0, 0)]
    at.arrive(0)
    at.say(apply(0), *compute(0))
    assert at.used[0].id == 0
    assert at.busy_workers() == [0, 1]
    assert at.received(Arrived)[0].grad == at.received(Ready)[0].grad


@pytest.mark.parametrize(
    ("commands", "complaint"),
    [
        ((Send(grads=(0, 0)),), "none twice"),
        ((Send(grads=()),), "at least one"),
        ((Send(grads=(0,)), Send(grads=(0,))), "is not ready, or travels already"),
        ((Send(grads=(1,)),), "is not ready, or travels already"),
        ((Send(grads=(7,)),), r"nobody holds gradient 7 \(held are \[0\]\)"),
        ((apply(0),), "not arrived"),
        (tuple(compute(0)), "busy with an earlier one"),
        ((Send(grads=(0,)), Drop(grads=(0,))), "not arrived"),
        ((Drop(grads=(0, 0)),), "none twice"),
        ((Drop(grads=(0,)), Send(grads=(0,))), "nobody holds gradient 0"),
    ],
)
def test_unlawful(at: Rig, commands: tuple[Any, ...], complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        at.say(*commands)


@pytest.mark.parametrize("requeue", [True, False])
def test_a_dropped_one_frees_its_worker(requeue: bool) -> None:
    """Its samples are the next ones to be computed when all others are taken, or nobody's."""
    at = rig(num_samples=2, epochs=1)
    at.say(*compute(0, 1))
    at.ready(0)
    first = at.orders[0].ranges
    at.say(Drop(grads=(0,), requeue=requeue), *compute(0))
    assert at.forgotten == [(0, 0)]
    assert at.dropped == []
    assert (2 in at.orders) == requeue
    if requeue:
        assert at.orders[2].ranges == first
        at.ready(0)
        assert at.received(Ready)[-1].grad.iteration == 1


def test_a_rollback_voids_what_is_held_and_what_travels(at: Rig) -> None:
    at.say(Send(grads=(0,)))
    at.ready(1)
    at.lose_server()
    at.restore()
    assert at.received(Restored)
    at.core.receive(9.0, inputs.GradientArrived(0, 0, Timings()))
    at.core.receive(9.0, inputs.GradientReady(1, 1, Timings(), 100))
    assert len(at.received(Ready, Arrived)) == 2
    at.say(*compute(0, 1))
    assert at.busy_workers() == [0, 1]


def summing(num_workers: int = 3) -> Rig:
    """All hold a gradient: 0, 1, 2; the first two are on their way to an aggregator as gradient 3."""
    at = rig(num_workers)
    at.core.executor.transfers.aggregators = frozenset({"aggregator:0"})
    at.say(*compute(*range(num_workers)))
    for worker in range(num_workers):
        at.ready(worker)
    at.say(Send(grads=(0, 1), via="aggregator:0"))
    return at


def arrive(at: Rig, *members: int) -> None:
    at.core.receive(at.at(None), inputs.GradientArrived(at.sums[0].grad_id, 0, Timings(), members=members))


def test_a_sum_is_one_gradient_of_all_its_members() -> None:
    at = summing()
    (order,) = at.sums
    assert (order.grad_id, order.via, [member.grad_id for member in order.members]) == (3, "aggregator:0", [0, 1])
    arrive(at, 0, 1)
    (told,) = at.received(Arrived)
    assert (told.grad.id, told.grad.members, told.grad.samples, told.grad.worker) == (3, (0, 1), 2, 0)
    at.say(Apply(grads=(3,), weights=(0.5,)), *compute(0, 1))
    _, applied, _ = at.applied[0]
    assert (applied.grads, applied.weights, applied.vectors, applied.samples) == ((0, 1), (0.5, 0.5), 1, 2)
    assert at.core.shards.samples_applied == 2


def test_a_sum_with_a_lost_gradient_in_it_is_discarded() -> None:
    """Its samples are back in the queue already: applied, they would count twice."""
    at = summing()
    at.lose(1)
    arrive(at, 0, 1)
    assert at.received(Arrived) == []
    assert [(event.worker, event.retryable) for event in at.received(Failed)] == [(0, True)]
    at.say(*compute(0))


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (Send(grads=(2,), via="aggregator:0"), "two gradients or more"),
        (Send(grads=(0, 2), via="aggregator:0"), "travels already"),
        (Send(grads=(2, 4), via="aggregator:1"), "nobody holds gradient 4"),
    ],
)
def test_unlawful_sums(command: Send, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        summing().say(command)


def test_while_an_aggregator_is_away_gradients_go_to_the_servers_themselves() -> None:
    sent, sums = list[Any](), list[Any]()
    ledger: Any = SimpleNamespace(ready={})
    port: Any = SimpleNamespace(send=sent.append, send_sum=sums.append)
    transfers = Transfers(ledger, port, count(100).__next__)
    transfers.aggregators = frozenset({"aggregator:0", "aggregator:1"})
    for number in range(10):
        round_ = 0 if number > 7 else None
        grad = Grad(id=number, worker=number, incarnation=0, iteration=0, version=0, samples=1, assigned_samples=1)
        transfers.ready(msgspec.structs.replace(grad, round=round_))
    transfers.send(Send(grads=(0, 1), via="aggregator:0"))
    transfers.send(Send(grads=(2, 3), via="aggregator:1"))
    assert [order.grad_id for order in transfers.lost("aggregator:0")] == [100]
    assert set(transfers.sums) == {101}, "the other's is still coming"
    transfers.send(Send(grads=(4, 5), via="aggregator:0"))
    assert [order.grad_id for order in sent] == [4, 5]
    transfers.joined("aggregator:0")
    transfers.send(Send(grads=(6, 7), via="aggregator:0"))
    assert [(order.grad_id, order.via) for order in sums][2:] == [(102, "aggregator:0")]
    with pytest.raises(ProtocolError, match="none of parts of a round"):
        transfers.send(Send(grads=(8, 9), via="aggregator:0"))


def test_there_must_be_such_an_aggregator(at: Rig) -> None:
    at.ready(1)
    with pytest.raises(ProtocolError, match=r"no such aggregator .* there are none"):
        at.say(Send(grads=(0, 1), via="aggregator:0"))


def test_a_sum_is_as_old_as_its_oldest_gradient_and_has_the_samples_of_all() -> None:
    """Worker 0 computes two samples on version 1, worker 1 three on version 0."""
    at = rig(3)
    at.core.executor.transfers.aggregators = frozenset({"aggregator:0"})
    at.say(*compute(2), *compute(1, num_samples=3))
    at.ready(2)
    at.say(Send(grads=(0,)))
    at.arrive(2)
    at.say(apply(0), *compute(0, num_samples=2))
    at.ready(0)
    at.ready(1)
    at.say(Send(grads=(2, 1), via="aggregator:0"))
    arrive(at, 2, 1)
    grad = at.received(Arrived)[-1].grad
    assert (grad.version, grad.samples, grad.assigned_samples, grad.members) == (0, 5, 5, (2, 1))
    assert at.core.executor.iterations == {0: 1, 1: 1, 2: 1}


def test_what_is_held_has_no_limit_of_time() -> None:
    with pytest.raises(ProtocolError, match=r"within_s is not for gradients that are held \(Send\)"):
        rig().say(Compute(worker=0, num_samples=1, within_s=1.0))
