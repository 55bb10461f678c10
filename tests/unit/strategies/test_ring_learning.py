"""What STAR-ML learns a ring's modes from: overheads, lines of records, and who remains when workers leave."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.star import Star
from strategies.star.learned import ModeLearner
from strategies.star.measuring import HeldPace, RingTook, read_took
from strategies.star.ring_modes import WHOLE, RingMode, RingOverhead
from strategies.star.times import ModeTimes
from tests.support.faults import Crash
from tests.support.harness import HeapRun, make_job
from tests.support.laws import unlawful


def test_overhead_is_what_members_did_not_compute_without_pauses() -> None:
    own = RingOverhead()
    own.arrived(3.0, 1.0)
    assert own.seconds == 0.0, "no update, so nothing to count from"
    own.updated(10.0)
    for arrived_s, computed_s in ((11.5, 1.2), (11.7, 1.3), (12.0, 1.4)):
        own.arrived(arrived_s, computed_s)
    assert own.seconds == pytest.approx(0.4)
    own = RingOverhead()
    own.updated(1.0)
    own.arrived(2.25, 1.0)
    own.interrupted()
    own.arrived(9.0, 1.0)
    own.arrived(9.0, 1.0)
    own.updated(9.0)
    own.arrived(10.25, 1.0)
    assert own.seconds == pytest.approx(0.25)


positive = st.floats(1e-3, 1e3)


@given(
    apart=st.lists(st.integers(0, 30), max_size=3, unique=True),
    wait_s=st.sampled_from([0.0, 0.03, 0.21, 1e-5]),
    numbers=st.tuples(positive, positive, positive, positive, positive),
    times_s=st.lists(positive, min_size=4, max_size=4),
    updates=st.integers(1, 10**6),
)
def test_a_line_of_the_record_says_what_it_was_made_of(
    apart: list[int], wait_s: float, numbers: tuple[float, ...], times_s: list[float], updates: int
) -> None:
    mode = RingMode(tuple(apart), wait_s) if apart else WHOLE
    *pace, overhead_s = numbers
    one = RingTook(mode, HeldPace(*pace), (0, 2, 5, 7), tuple(times_s), tuple(times_s), updates, overhead_s)
    found = read_took(str(one))
    assert found is not None
    assert (found.mode, found.workers, found.updates) == (mode, (0, 2, 5, 7), updates)
    assert [*found.pace, found.overhead_s, *found.times_s] == pytest.approx([*pace, overhead_s, *times_s], rel=1e-5)


def test_equal_updates_cost_what_equation_3_says() -> None:
    """Four of 128 samples, fresh, every 2 s: (1 + 1000 / 512) x 2; a lag of a half with kappa 4 doubles it."""
    costs = ModeTimes(mode_cost="pooled", kappa=4.0)
    assert HeldPace(2.0, 512.0, 0.0, 0.0).unit_s(1000.0, costs) == pytest.approx(5.90625)
    assert HeldPace(2.0, 512.0, 0.0, 0.5).unit_s(1000.0, costs) == pytest.approx(11.8125)


@pytest.mark.parametrize(
    "learning", [None, ModeLearner(topology="allreduce", min_samples=10, refit_samples=5, epochs=2)]
)
def test_decisions_continue_when_all_who_were_left_in_the_ring_are_gone(learning: Any) -> None:
    """Workers 1 and 2 are children of worker 0, which leaves for good: the next decision is about those two."""
    strategy = Star(
        topology="allreduce",
        phi=1000.0,
        decision_s=0.0,
        warmup_iters=0,
        predictor="last_value",
        redecide_iters=1,
        kappa=16.0,
        learning=learning,
    )
    job = make_job(num_workers=3, num_servers=0, global_batch_samples=384, num_samples=10**6, max_time_s=80.0)
    run = HeapRun(strategy, job, [1.0, 3.0, 5.0], [Crash(20.0, 0, None)])
    run.run()
    assert unlawful(run) == []
    assert {order.excluded for t, order, _ in run.applied if 15 < t < 20} == {(1, 2)}
    assert max(t for t, _, _ in run.applied) > 60
