"""Children of replicas: what an Apply may say about them, what the orders say then, and what a loss leaves of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from strategies.protocol import Apply, ProtocolError
from tests.support.harness import Puppet, Rig, apply, compute, make_job

Pairs = tuple[tuple[int, int], ...]


def with_children(*grads: int, children: Pairs = ()) -> Apply:
    return msgspec.structs.replace(apply(*grads), children=children)


def rig(*arriving: int, num_servers: int = 0) -> Rig:
    """Four workers compute gradients 0 to 3, and these have delivered."""
    at = Rig(Puppet(), make_job(num_servers=num_servers)).start()
    at.say(*compute(0, 1, 2, 3))
    for worker in arriving or range(4):
        at.arrive(worker)
    return at


def attached(children: Pairs = ((3, 1),)) -> Rig:
    """As :func:`rig`, after the first update, from which on these are children; gradients 4 to 7 are computed."""
    at = rig()
    at.say(with_children(0, 1, 2, 3, children=children), *compute(0, 1, 2, 3))
    return at


def refusal(at: Rig, *commands: object) -> str:
    with pytest.raises(ProtocolError) as refused:
        at.say(*commands)
    return str(refused.value)


def test_a_child_computes_with_its_parent_and_takes_no_part_in_the_next_sums() -> None:
    at = attached()
    assert [at.orders[grad].parent for grad in range(8)] == [None] * 7 + [1]
    for worker in range(4):
        at.arrive(worker)
    at.say(with_children(4, 5, 6, 7, children=((3, 1),)))
    order = at.applied[-1][1]
    assert (order.grads, order.excluded, order.returning) == ((4, 5, 6, 7), (3,), ())


def test_who_is_not_named_any_more_takes_the_state_over_from_its_parent() -> None:
    at = attached()
    for worker in range(4):
        at.arrive(worker)
    at.say(with_children(4, 5, 6, 7), *compute(3))
    assert at.applied[-1][1].returning == ((3, 1),)
    assert at.orders[8].parent is None


@pytest.mark.parametrize(
    ("children", "why"),
    [
        (((3, 7),), "worker 7 is not running"),
        (((7, 0),), "worker 7 is not running"),
        (((3, 1), (3, 2)), "a child has one parent"),
        (((3, 1), (1, 0)), "worker 1 is a child itself"),
        (((3, 3),), "worker 3 is a child itself"),
    ],
)
def test_children_need_a_parent_in_the_ring(children: Pairs, why: str) -> None:
    assert why in refusal(rig(), with_children(0, 1, 2, 3, children=children))


@pytest.mark.parametrize(
    ("make", "arriving", "update", "why"),
    [
        (lambda: rig(num_servers=1), (), with_children(0, children=((3, 1),)), "servers hold the parameters"),
        (lambda: rig(0, 1, 2), (), with_children(0, 1, 2, children=((3, 1),)), "worker 3 computes"),
        (rig, (), with_children(0, 1, 2, children=((3, 1),)), "worker 3 keeps gradient 3"),
        (attached, (0, 1, 2), with_children(4, 5, 6), "worker 3 computes"),
        (attached, (0, 1, 2), with_children(4, 5, 6, children=((3, 2), (1, 0))), "worker 1 keeps gradient 7, or will"),
        (
            attached,
            range(4),
            with_children(4, 5, 6, 7, children=((1, 3),)),
            "worker 3 was not in the ring, so it has no parameters to give",
        ),
    ],
)
def test_who_computes_or_keeps_a_gradient_stays_where_it_is(
    make: Callable[[], Rig], arriving: Sequence[int], update: Apply, why: str
) -> None:
    at = make()
    for worker in arriving:
        at.arrive(worker)
    assert why in refusal(at, update)


def test_a_gradient_outside_of_the_ring_cannot_be_summed() -> None:
    """Worker 3 computed it before it left, on parameters of its own."""
    at = attached(((2, 0),))
    for worker in range(4):
        at.arrive(worker)
    at.core.members.parents[3] = 1  # as if it had left with what it keeps
    assert "worker 3 keeps gradient 7, and is not in the ring" in refusal(at, with_children(4, 5, 6, 7))
