"""STAR's communication tree in a job: gradients that are summed on their way up (STAR, section IV-D2).

Of BSP, and of STAR itself in those of its modes in which it is known whose gradients make an update.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from runtime.core import inputs
from strategies.basic.bsp import BSP
from strategies.parts.gates import EachGate
from strategies.parts.sending.tree import TreeGate
from strategies.protocol import Send, Strategy, Timings
from strategies.star import Star
from strategies.star.modal import ASGD, ModalGate, Mode
from tests.support.harness import Rig, make_job

LATENCIES_S = {0: 5.0, 1: 2.0, 2: 9.0, 3: 1.0, 4: 7.0, 5: 3.0}
"""Of parameters on their way to each worker."""
star = partial(Star, phi=300.0, predict_every_iters=1000)
"""It decides nothing: its mode is what a test makes it."""
systems = pytest.mark.parametrize("make", [BSP, star], ids=["bsp", "star"])


def ready(rig: Rig, worker: int, t: float, recv_s: float | None = None) -> None:
    grad_id = rig.core.ledger.busy[worker].grad_id
    timings = Timings(compute_s=1.0, recv_s=LATENCIES_S[worker] if recv_s is None else recv_s)
    rig.core.receive(t, inputs.GradientReady(grad_id, worker, timings, 100, loss=1.0))


def summed(rig: Rig, place: int, t: float) -> None:
    """All servers have the sum that was ordered as number ``place``."""
    order = rig.sums[place]
    members = tuple(member.grad_id for member in order.members)
    first = order.members[0].worker
    rig.core.receive(t, inputs.GradientArrived(order.grad_id, first, Timings(), members=members))


def sends(rig: Rig) -> list[tuple[tuple[int, ...], str | None]]:
    """The workers of every Send, in order."""
    commands = [command for line in rig.lines for command in line.commands if isinstance(command, Send)]
    return [(tuple(rig.grads[grad].worker for grad in command.grads), command.via) for command in commands]


def second_round(strategy: Strategy) -> Rig:
    """Six workers, all of whose gradients of the first round have arrived, at 10 s."""
    rig = Rig(strategy, make_job(num_workers=6, global_batch_samples=6, num_samples=600)).start()
    for worker in LATENCIES_S:
        ready(rig, worker, 1.0)
    for worker in LATENCIES_S:
        rig.arrive(worker, 10.0)
    assert rig.core.version == 1
    return rig


def change(strategy: Star, mode: Mode) -> None:
    """The schedule takes another mode, in the middle of an update."""
    assert strategy.parts.one(ModalGate).switch(mode) == []


@systems
def test_near_workers_are_inner_nodes(make: Callable[..., Strategy]) -> None:
    """Section IV-D2, worked by hand: 3 and 1 are the nearest; 3 sums 5 and 0, 1 sums 4 and 2."""
    rig = second_round(make(tree_fanout=2, tree_wait_s=5.0))
    assert sends(rig) == [((worker,), None) for worker in LATENCIES_S], "in the first round nothing is known"
    for number, worker in enumerate((0, 2, 5, 1, 4, 3)):
        ready(rig, worker, 11.0 + 0.1 * number)
    assert sends(rig)[6:] == [((1, 4, 2), "aggregator:1"), ((3, 5, 0), "aggregator:0")]
    summed(rig, 1, 12.0)
    assert rig.core.version == 1
    summed(rig, 0, 13.0)
    assert rig.core.version == 2
    (_, order, grads) = rig.applied[-1]
    assert (len(order.grads), order.vectors, sum(grad.samples for grad in grads)) == (6, 2, 6)
    assert order.weights == pytest.approx([1 / 6] * 6)
    assert sorted(work.worker for work in rig.core.ledger.busy.values()) == [0, 1, 2, 3, 4, 5]


def test_a_child_that_is_later_than_the_waiting_time_sends_directly() -> None:
    """Beyond the paper, which says only that stragglers should not be waited for: 3 is ready at 11 s, 0 at 14 s."""
    rig = second_round(BSP(tree_fanout=2, tree_wait_s=2.0))
    ready(rig, 3, 11.0)
    ready(rig, 5, 12.0)
    assert rig.timers[-1] == (13.0, "strategy:tree")
    rig.core.receive(13.0, inputs.TimerFired("strategy:tree"))
    ready(rig, 0, 14.0)
    assert sends(rig)[6:] == [((3, 5), "aggregator:0"), ((0,), None)]


def test_every_group_of_dynamic_x_order_has_a_tree() -> None:
    """Section IV-D2: workers who wait for each other. Of (0, 1, 2) the nearest are 1 and 0, of (3, 4, 5) 3 and 5."""
    strategy = star(tree_fanout=2, tree_wait_s=5.0)
    rig = second_round(strategy)
    change(strategy, Mode(groups=((0, 1, 2), (3, 4, 5))))
    for number, worker in enumerate((0, 2, 3, 1)):
        ready(rig, worker, 11.0 + 0.1 * number)
    assert sends(rig)[6:] == [((0,), None), ((1, 2), "aggregator:0")]
    rig.arrive(0, 11.5)
    summed(rig, 0, 12.0)
    assert [(len(order.grads), order.vectors) for _, order, _ in rig.applied[1:]] == [(3, 2)]
    assert sorted(work.worker for work in rig.core.ledger.busy.values()) == [0, 1, 2, 3, 4, 5]
    ready(rig, 4, 13.0)
    assert sends(rig)[-1] == ((3, 4), "aggregator:0")


@pytest.mark.parametrize("mode", [ASGD, Mode(x=3)], ids=str)
def test_where_it_is_not_known_whose_gradients_make_an_update_there_is_no_tree(mode: Mode) -> None:
    """Section IV-D2: in ASGD there is nothing to add; in static x-order the x earliest are known when all is over."""
    strategy = star(tree_fanout=2, tree_wait_s=5.0)
    rig = second_round(strategy)
    change(strategy, mode)
    for number, worker in enumerate((5, 0)):
        ready(rig, worker, 11.0 + 0.1 * number)
    assert sends(rig)[6:] == [((5,), None), ((0,), None)]


def test_what_is_held_when_the_mode_changes_is_sent_as_the_new_one_needs_it() -> None:
    """Beyond the paper: 5 and 0 wait for their inner node 3. Nobody waits in ASGD; in groups 5 goes with 4 and 2."""
    groups = Mode(groups=((0, 1), (2, 4, 5), (3,)))
    for mode, at_once, then in [
        (ASGD, [((5,), None), ((0,), None), ((4,), None)], [((2,), None)]),
        (groups, [((0,), None), ((4,), None)], [((5, 2), "aggregator:0")]),
    ]:
        strategy = star(tree_fanout=2, tree_wait_s=5.0)
        rig = second_round(strategy)
        for number, worker in enumerate((5, 0)):
            ready(rig, worker, 11.0 + 0.1 * number)
        assert sends(rig)[6:] == []
        change(strategy, mode)
        ready(rig, 4, 11.2)
        assert sends(rig)[6:] == at_once
        ready(rig, 2, 11.3)
        assert sends(rig)[6 + len(at_once) :] == then


def test_only_gates_of_known_groups_have_a_tree() -> None:
    """Section IV-D2: with one gradient per update nothing can be added on the way."""
    with pytest.raises(ValueError, match=r"gate=EachGate: it is not known beforehand .* takes AllGate or ModalGate"):
        TreeGate(gate=EachGate())
    with pytest.raises(ValueError, match=r"tree_wait_s=1.0: there is no tree; set tree_fanout"):
        BSP(tree_wait_s=1.0)
    with pytest.raises(ValueError, match=r"tree_fanout=2: a tree of two levels has at most 6 workers, and there are 7"):
        BSP(tree_fanout=2).validate(7)
    BSP(tree_fanout=2).validate(6)


def test_a_newcomer_for_whom_two_levels_have_no_room_sends_directly() -> None:
    """Beyond the paper: with a fan-out of 1 a tree has two workers; an operator lets a third one join."""
    job = make_job(num_workers=2, global_batch_samples=2, num_samples=600)
    rig = Rig(BSP(tree_fanout=1, tree_wait_s=1.0), job).start()
    for worker in (0, 1):
        ready(rig, worker, 1.0, recv_s=1.0)
    rig.core.receive(1.5, inputs.Operated("join", ""))
    rig.core.receive(1.5, inputs.WorkerJoined(2, 0))
    for worker in (0, 1):
        rig.arrive(worker, 2.0)
    for t in (3.0, 6.0):  # until its latency is known, and then
        for worker in (0, 1, 2):
            ready(rig, worker, t, recv_s=1.0)
        assert sends(rig)[-2:] == [((0, 1), "aggregator:0"), ((2,), None)]
        summed(rig, -1, t + 1.0)
        rig.arrive(2, t + 2.0)
    assert rig.core.version == 3
