"""STAR without servers: who leaves the ring, and how long parents wait (equation 3, sections IV-B and IV-C1)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from runtime.core import inputs
from strategies.protocol import Timings
from strategies.star import Star
from strategies.star.ring_modes import RingMode, candidates
from strategies.star.times import ring_s
from tests.support.harness import HeapRun, Rig, make_job
from tests.support.laws import unlawful

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
