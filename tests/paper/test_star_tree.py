"""STAR's communication tree in a job: BSP whose gradients are summed on their way up (STAR, section IV-D2)."""

from __future__ import annotations

import pytest

from runtime.core import inputs
from strategies.bsp import BSP
from strategies.gates import EachGate
from strategies.protocol import Send, Timings
from strategies.sending import TreeGate
from tests.support.harness import Desk, make_job

LATENCIES_S = {0: 5.0, 1: 2.0, 2: 9.0, 3: 1.0, 4: 7.0, 5: 3.0}
"""Of parameters on their way to each worker."""


def ready(desk: Desk, worker: int, t: float, recv_s: float | None = None) -> None:
    grad_id = desk.core.ledger.busy[worker].grad_id
    timings = Timings(compute_s=1.0, recv_s=LATENCIES_S[worker] if recv_s is None else recv_s)
    desk.core.receive(t, inputs.GradientReady(grad_id, worker, timings, 100, loss=1.0))


def summed(desk: Desk, place: int, t: float) -> None:
    """All servers have the sum that was ordered as number ``place``."""
    order = desk.sums[place]
    members = tuple(member.grad_id for member in order.members)
    first = order.members[0].worker
    desk.core.receive(t, inputs.GradientArrived(order.grad_id, first, Timings(), members=members))


def sends(desk: Desk) -> list[tuple[tuple[int, ...], str | None]]:
    """The workers of every Send, in order."""
    commands = [command for line in desk.lines for command in line.commands if isinstance(command, Send)]
    return [(tuple(desk.grads[grad].worker for grad in command.grads), command.via) for command in commands]


def second_round(strategy: BSP) -> Desk:
    """Six workers, all of whose gradients of the first round have arrived, at 10 s."""
    desk = Desk(strategy, make_job(num_workers=6, global_batch_samples=6, num_samples=600)).start()
    for worker in LATENCIES_S:
        ready(desk, worker, 1.0)
    for worker in LATENCIES_S:
        desk.arrive(worker, 10.0)
    assert desk.core.version == 1
    return desk


def test_in_the_first_round_nothing_is_known_and_all_send_directly() -> None:
    """Section IV-D2: the tree is built of latencies, which this one measures by itself."""
    desk = second_round(BSP(tree_fanout=2))
    assert sends(desk) == [((worker,), None) for worker in LATENCIES_S]


def test_near_workers_are_inner_nodes() -> None:
    """Section IV-D2, worked by hand: 3 and 1 are the nearest; 3 sums 5 and 0, 1 sums 4 and 2."""
    desk = second_round(BSP(tree_fanout=2, tree_wait_s=5.0))
    for number, worker in enumerate((0, 2, 5, 1, 4, 3)):
        ready(desk, worker, 11.0 + 0.1 * number)
    assert sends(desk)[6:] == [((1, 4, 2), "aggregator:1"), ((3, 5, 0), "aggregator:0")]
    summed(desk, 1, 12.0)
    assert desk.core.version == 1
    summed(desk, 0, 13.0)
    assert desk.core.version == 2
    (_, order, grads) = desk.applied[-1]
    assert (len(order.grads), order.vectors, sum(grad.samples for grad in grads)) == (6, 2, 6)
    assert order.weights == pytest.approx([1 / 6] * 6)
    assert sorted(work.worker for work in desk.core.ledger.busy.values()) == [0, 1, 2, 3, 4, 5]


def test_a_child_that_is_later_than_the_waiting_time_sends_directly() -> None:
    """Beyond the paper, which says only that stragglers should not be waited for: 3 is ready at 11 s, 0 at 14 s."""
    desk = second_round(BSP(tree_fanout=2, tree_wait_s=2.0))
    ready(desk, 3, 11.0)
    ready(desk, 5, 12.0)
    assert desk.timers[-1] == (13.0, "strategy:tree")
    desk.core.receive(13.0, inputs.TimerFired("strategy:tree"))
    ready(desk, 0, 14.0)
    assert sends(desk)[6:] == [((3, 5), "aggregator:0"), ((0,), None)]


def test_children_do_not_wait_for_ever_for_who_has_nothing_to_compute() -> None:
    """Beyond the paper: at the end of an epoch an inner node may find no data."""
    desk = second_round(BSP(tree_fanout=2, tree_wait_s=2.0))
    ready(desk, 5, 11.0)
    ready(desk, 0, 12.0)
    assert sends(desk)[6:] == []
    desk.core.receive(13.0, inputs.TimerFired("strategy:tree"))
    assert sends(desk)[6:] == [((5, 0), "aggregator:0")]


def test_only_rounds_have_a_tree() -> None:
    """Section IV-D2: with one gradient per update nothing can be added on the way."""
    with pytest.raises(ValueError, match=r"gate=EachGate: its updates are not of all workers, .* a tree takes AllGate"):
        TreeGate(gate=EachGate())
    with pytest.raises(ValueError, match=r"tree_wait_s=1.0: there is no tree; set tree_fanout"):
        BSP(tree_wait_s=1.0)
    with pytest.raises(ValueError, match=r"tree_fanout=2: a tree of two levels has at most 6 workers, and there are 7"):
        BSP(tree_fanout=2).validate(7)
    BSP(tree_fanout=2).validate(6)
