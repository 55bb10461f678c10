"""STAR's all-reduce with children, sections IV-B and IV-D2, and its baseline LGC-AR, section V-A."""

from __future__ import annotations

from itertools import pairwise

import pytest

from runtime.core import inputs
from runtime.core.job import Job
from strategies.lgc import LGC
from strategies.lgc.slowest import SlowestApart
from strategies.parts.composed import Composed
from strategies.parts.gates import RingGate
from strategies.protocol import AnyCommand, Apply, Strategy
from tests.support.harness import HeapRun, Rig, make_job

TIMER = inputs.TimerFired("strategy:children")
"""That of a parent that has waited long enough."""


def fixed(k_fastest: int, wait_s: float = 0.0) -> Composed:
    """The K fastest of the first round are the ring for the rest of the job."""
    schedule = SlowestApart(k_fastest=k_fastest, wait_s=wait_s, reselect_iters=10**6, window_iters=1, warmup_iters=0)
    return Composed(gate=RingGate(), schedule=schedule)


def rig(strategy: Strategy, num_workers: int) -> Rig:
    return Rig(strategy, make_job(num_workers=num_workers, num_servers=0, global_batch_samples=num_workers)).start()


def round_of(at: Rig, times_s: dict[int, float]) -> None:
    """All workers deliver at these times, and their iterations took so long."""
    for worker, time_s in sorted(times_s.items(), key=lambda item: item[1]):
        at.arrive(worker, time_s, compute_s=time_s)


def applied(at: Rig) -> list[tuple[float, list[int]]]:
    """(time, workers) of every update."""
    return [(t, [grad.worker for grad in grads]) for t, _, grads in at.applied]


def answer(at: Rig) -> tuple[AnyCommand, ...]:
    commands: tuple[AnyCommand, ...] = at.lines[-1].commands
    return commands


@pytest.mark.parametrize(("delivered_s", "included"), [(1.15, True), (1.25, True), (1.45, False)])
def test_a_ring_starts_when_its_last_member_is_ready_if_no_parent_waits_longer(
    delivered_s: float, included: bool
) -> None:
    """Section IV-B: ready after 1.0, 1.1 and 1.3 s, a child of the first, which waits 0.2 s: the ring starts at 1.3 s.

    A child that delivers at 1.25 s is in time for the ring, although its parent waited until 1.2 s only."""
    at = rig(fixed(k_fastest=3, wait_s=0.2), 4)
    round_of(at, {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4})
    round_of(at, {0: 0.5, 1: 0.6, 2: 0.7, 3: 0.8})
    begun_s = 0.8
    assert at.applied[-1][1].children == ((3, 0),)
    arriving = {0: begun_s + 1.0, 1: begun_s + 1.1, 2: begun_s + 1.3, 3: begun_s + delivered_s}
    for worker, at_s in sorted(arriving.items(), key=lambda item: item[1]):
        at.arrive(worker, at_s)
    started_s, workers = applied(at)[2]
    assert started_s == pytest.approx(begun_s + 1.3)
    assert workers == ([0, 1, 2, 3] if included else [0, 1, 2])


def test_a_parent_waits_for_its_child_and_no_longer_than_it_may() -> None:
    """Section IV-B: the last member of the ring has the child; a timer ends its wait 0.2 s after its own gradient."""
    at = rig(fixed(k_fastest=1, wait_s=0.2), 2)
    round_of(at, {0: 0.1, 1: 0.4})
    round_of(at, {0: 0.5, 1: 0.8})
    at.arrive(0, 1.0)
    assert [(at_s, tag) for at_s, tag in at.timers if tag == "strategy:children"] == [(1.2, "strategy:children")]
    assert len(at.applied) == 2
    at.core.receive(1.2, TIMER)
    assert [workers for _, workers in applied(at)[2:]] == [[0]]
    at.arrive(1, 1.3)
    assert len(at.applied) == 3, "a ring that has started is not waited for: the gradient is in the next"
    at.arrive(0, 1.5)
    assert [(grad.worker, grad.version) for grad in at.applied[3][2]] == [(0, 3), (1, 2)]


def test_a_parent_whose_patience_changes_while_it_waits_has_a_timer_for_that() -> None:
    """Section IV-B: a decision comes between the gradients of worker 0, who has the child, and of worker 1."""
    strategy = fixed(k_fastest=2, wait_s=0.2)
    at = rig(strategy, 3)
    round_of(at, {0: 0.1, 1: 0.2, 2: 0.4})
    round_of(at, {0: 0.5, 1: 0.6, 2: 0.8})
    at.arrive(0, 1.0)
    gate = strategy.parts.gate
    assert isinstance(gate, RingGate)
    gate.wait_s = 0.5
    at.arrive(1, 1.1)
    assert [at_s for at_s, tag in at.timers if tag == "strategy:children"] == [1.2, 1.5]
    at.core.receive(1.2, TIMER)
    assert len(at.applied) == 2
    at.core.receive(1.5, TIMER)
    assert [workers for _, workers in applied(at)[2:]] == [[0, 1]]


def test_a_child_that_is_two_rings_late_is_dropped_and_not_waited_for() -> None:
    """Section V-A: at most one version late. Section IV-B: its gradient is dropped, and there is nothing more to
    come for this ring."""
    at = rig(fixed(k_fastest=1), 2)
    round_of(at, {0: 0.1, 1: 0.4})
    round_of(at, {0: 0.5, 1: 0.8})
    for at_s in (1.0, 1.2):
        at.arrive(0, at_s)
    at.arrive(1, 1.3)
    assert at.dropped == [5]
    assert not [command for command in answer(at) if isinstance(command, Apply)]
    at.arrive(0, 1.4)
    assert [command.worker for command in answer(at) if type(command).__name__ == "Compute"] == [0, 1]
    at = rig(fixed(k_fastest=1, wait_s=0.2), 2)
    round_of(at, {0: 0.1, 1: 0.4})
    round_of(at, {0: 0.5, 1: 0.8})
    for at_s in (1.0, 1.4):
        at.arrive(0, at_s)
        at.core.receive(at_s + 0.2, TIMER)
    at.arrive(0, 1.8)
    assert len(at.applied) == 4
    at.arrive(1, 1.9)
    assert at.dropped == [5]
    assert applied(at)[4:] == [(1.9, [0])]
    assert {order.worker for order in at.orders.values() if order.version == 5} == {0, 1}


def test_parents_with_the_fewest_children_come_first() -> None:
    """Section IV-D2, with links that are all equally fast: children 3, 4, 5, 6 of a ring of 0, 1, 2."""
    at = rig(fixed(k_fastest=3), 7)
    times_s = {worker: 0.1 * (worker + 1) for worker in range(7)}
    round_of(at, times_s)
    round_of(at, {worker: 1.0 + time_s for worker, time_s in times_s.items()})
    assert at.applied[-1][1].children == ((3, 0), (4, 1), (5, 2), (6, 0))


def replicas(until_s: float) -> Job:
    return make_job(num_servers=0, max_time_s=until_s)


def test_lgc_over_all_reduce_counts_gradients_that_are_one_ring_late() -> None:
    """Section V-A: K = 3 of T = 1, 1, 1, 1.8; two rings of the first choice, then one a second."""
    strategy = LGC(k_fastest=3, topology="allreduce", reselect_iters=10**6)
    run = HeapRun(strategy, replicas(40.0), [1.0, 1.0, 1.0, 1.8])
    run.run()
    ages = [order.version - 1 - grad.version for _, order, grads in run.applied for grad in grads if grad.worker == 3]
    assert set(ages) == {0, 1}
    assert not run.dropped
    assert {round(after[0] - before[0], 6) for before, after in pairwise(run.applied[10:])} == {1.0}


def test_the_fastest_are_chosen_again() -> None:
    """Section V-A, every ten updates: worker 3 is the slowest at first, then worker 2."""
    slow = {3: range(15), 2: range(15, 10**6)}
    strategy = LGC(k_fastest=3, topology="allreduce", reselect_iters=10)
    run = HeapRun(strategy, replicas(60.0), lambda worker, order: 1.8 if order.version in slow.get(worker, ()) else 1.0)
    run.run()
    assert list(dict.fromkeys(order.excluded for _, order, _ in run.applied)) == [(), (3,), (2,)]
    assert [order.returning for _, order, _ in run.applied if order.returning] == [((3, 0),)]
