"""STAR without servers: the all-reduce with children, who leaves the ring, how long parents wait (equation 3, sections
IV-B to IV-D2), and the baseline LGC-AR, section V-A."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from runtime.core import inputs
from runtime.core.job import Job
from strategies.lgc import LGC
from strategies.lgc.slowest import SlowestApart
from strategies.parts.composed import Composed
from strategies.parts.gates import RingGate
from strategies.protocol import AnyCommand, Apply, Strategy, Timings
from strategies.star import Star
from strategies.star.ring_modes import RingMode, candidates
from strategies.star.times import ring_s
from tests.support.harness import HeapRun, Rig, make_job
from tests.support.laws import unlawful

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


SETTINGS: dict[str, Any] = {"topology": "allreduce", "phi": 1000.0, "decision_s": 0.0, "warmup_iters": 0}
EIGHT = [1.0] * 6 + [1.5, 3.0]


def run_of(times_s: list[float], until_s: float = 40.0, **changes: Any) -> HeapRun:
    """A job whose workers take so long, of 128 samples each."""
    strategy = Star(**{**SETTINGS, "history_iters": 20, "horizon_iters": 5, **changes})
    size = {"num_workers": len(times_s), "global_batch_samples": 128 * len(times_s)}
    job = make_job(num_servers=0, max_time_s=until_s, num_samples=10**6, **size)
    run = HeapRun(strategy, job, times_s)
    run.run()
    assert unlawful(run) == []
    return run


def modes_of(run: HeapRun) -> list[str]:
    """Those of the record, each once, in order."""
    states = [line.state["mode"] for line in run.lines if line.state]
    return list(dict.fromkeys(states))


def test_two_of_eight_leave_the_ring_where_that_costs_least() -> None:
    """Section IV-C1, equation 3, with phi = 1000: 5.9297, 3.1741, 2.3021 s for x = 0, 1, 2 without waiting.

    Then a ring starts every second; worker 6 is one update late and counts, worker 7 takes too long for any."""
    costs = [ring_s(EIGHT[: 8 - x], EIGHT[8 - x :], 0.0, 128, 1000) for x in range(3)]
    assert costs == pytest.approx([5.9297, 3.1741, 2.3021], abs=5e-5)
    run = run_of(EIGHT)
    assert modes_of(run) == ["ring of all", "ring without 7 6, wait 0 s"]
    later = run.applied[10:]
    assert {order.excluded for _, order, _ in later} == {(6, 7)}
    assert {round(second[0] - first[0], 6) for first, second in pairwise(later)} == {1.0}
    assert {grad.worker for _, _, grads in later for grad in grads} == set(range(7))


def test_without_stragglers_it_is_bsp_and_decides_nothing() -> None:
    """Section IV-B: SSGD if nobody straggles."""
    run = run_of([1.0, 1.05, 1.1, 1.0])
    assert modes_of(run) == ["ring of all"]
    assert all(not order.excluded and not order.children for _, order, _ in run.applied)
    assert {line.state["decisions"] for line in run.lines if line.state} == {0}


def test_who_is_fast_again_is_back_in_the_ring() -> None:
    """Section IV-A: tags follow the predictions; worker 3 takes 3 s, and 1 s from its sixth iteration on."""
    strategy = Star(**{**SETTINGS, "history_iters": 20, "horizon_iters": 5})
    job = make_job(num_servers=0, global_batch_samples=512, num_samples=10**6, max_time_s=60.0)
    run = HeapRun(strategy, job, lambda worker, order: 3.0 if worker == 3 and order.grad_id < 25 else 1.0)
    run.run()
    assert unlawful(run) == []
    assert {order.excluded for _, order, _ in run.applied} == {(), (3,)}
    assert run.applied[-1][1].excluded == ()
    assert [order.returning for _, order, _ in run.applied if order.returning] == [((3, 0),)]


def test_what_a_child_spends_on_its_link_does_not_make_it_a_straggler() -> None:
    """Section IV-C1: worker 2 computes 3 s, then 1 s, and spends 0.3 s each way as long as it is a child."""
    at = Rig(Star(**SETTINGS), make_job(num_workers=3, num_servers=0, global_batch_samples=384, num_samples=10**6))
    at.start()
    aparts = list[tuple[int, ...]]()
    for turn in range(30):
        for worker in (2, 1, 0):
            order = at.orders[at.core.ledger.busy[worker].grad_id]
            link_s = 0.0 if order.parent is None else 0.3
            compute_s = 3.0 if worker == 2 and turn < 8 else 1.0
            timings = Timings(compute_s=compute_s, recv_s=link_s, send_s=link_s)
            at.core.receive(at.at(None), inputs.GradientArrived(order.grad_id, worker, timings, 1.0))
        aparts.append(at.applied[-1][1].excluded)
    assert set(aparts[4:8]) == {(2,)}
    assert set(aparts[-12:]) == {()}


def test_the_candidates_are_the_slowest_of_those_that_straggle() -> None:
    """Section IV-C1: x up to the number of predicted stragglers, with every wait; somebody stays in any case."""
    times_s = {0: 1.0, 1: 3.0, 2: 2.0, 3: 3.0}
    found = candidates(times_s, {1, 2, 3}, (0.1, 0.0))
    aparts = [(), (3,), (3,), (3, 1), (3, 1), (3, 1, 2), (3, 1, 2)]
    assert [mode.apart for mode in found] == aparts
    assert found[:3] == [RingMode((), 0.0), RingMode((3,), 0.0), RingMode((3,), 0.1)]
    assert max(len(mode.apart) for mode in candidates({0: 1.0, 1: 1.0}, {0, 1}, (0.0,))) == 1
