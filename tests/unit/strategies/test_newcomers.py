"""More workers than samples in the global batch, since others have joined: everybody computes one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from strategies.antdt.antdt_dd import AntDTDD
from strategies.antdt.antdt_nd import AntDTND
from strategies.gradient_coding import GradientCoding
from strategies.lb_bsp import LBBSP
from strategies.protocol import AnyCommand, Arrived, Compute, Joined, Lost, Partition, Started, Strategy, Timings
from tests.support.grads import make_grad

POLICIES: tuple[Strategy, ...] = (LBBSP(), LBBSP(kind="gpu"), AntDTND(), AntDTDD(), AntDTDD(profile_sizes=(1, 2)))


def rounds(strategy: Strategy, orders: Sequence[AnyCommand], first_id: int) -> list[Compute]:
    """All deliver what was ordered; returns the orders of the next round."""
    given = [order for order in orders if isinstance(order, Compute)]
    answers: Sequence[AnyCommand] = ()
    for place, order in enumerate(given):
        grad = make_grad(order.worker, order.num_samples, id=first_id + place)
        answers = strategy.handle(Arrived(t=2.0, grad=grad, timings=Timings(compute_s=0.1)))
    return [one for one in answers if isinstance(one, Compute)]


@pytest.mark.parametrize("strategy", POLICIES, ids=lambda one: type(one).__name__)
def test_nobody_is_ordered_to_compute_no_sample(strategy: Strategy) -> None:
    begun = strategy.handle(Started(t=0.0, workers=(0, 1), batch_samples=(1, 1), num_servers=1))
    for worker in (2, 3):
        strategy.handle(Joined(t=1.0, worker=worker, incarnation=0))
    orders = rounds(strategy, begun, 0)
    assert [(order.worker, order.num_samples) for order in orders] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    for worker in (2, 3):
        strategy.handle(Lost(t=3.0, worker=worker, incarnation=0, reason="retired", restarting=False))
    again = [order for order in orders if order.worker < 2]
    assert [(order.worker, order.num_samples) for order in rounds(strategy, again, 4)] == [(0, 1), (1, 1)]


def test_nobody_is_ordered_to_compute_a_row_of_empty_parts() -> None:
    strategy = GradientCoding(scheme="cyclic", s=1)
    begun = strategy.handle(Started(t=0.0, workers=(0, 1, 2), batch_samples=(1, 1, 1), num_servers=1))
    for worker in (3, 4, 5):
        strategy.handle(Joined(t=1.0, worker=worker, incarnation=0))
    answers: list[AnyCommand] = []
    for place, order in enumerate([one for one in begun if isinstance(one, Compute)][:2]):
        grad = make_grad(order.worker, 2, id=place, round=1, round_samples=3)
        answers += strategy.handle(Arrived(t=2.0, grad=grad, timings=Timings(compute_s=0.1)))
    assert Partition(num_samples=6, num_parts=6) in answers
    given = {one.worker: one.num_samples for one in answers if isinstance(one, Compute)}
    assert given == dict.fromkeys((0, 1, 3, 4, 5), 2)
