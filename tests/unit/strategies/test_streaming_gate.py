"""The gate of fragments: who offers, waits and mixes when, and what an update of all finds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.local_sgd import DiLoCo
from strategies.local_sgd.streaming import StreamingGate
from strategies.parts.gates import Verdict
from strategies.protocol import Apply, Grad, StepAlone, SumFragment
from tests.support.harness import HeapRun, make_job


def grad(number: int, worker: int, samples: int = 4) -> Grad:
    return Grad(
        id=number, worker=worker, incarnation=0, iteration=0, version=0, samples=samples, assigned_samples=samples
    )


def begun(workers: int, **settings: Any) -> StreamingGate:
    gate = StreamingGate(**settings)
    assert gate.begin(range(workers), 0) == tuple(range(workers))
    return gate


@given(
    workers=st.integers(1, 5),
    fragments=st.integers(1, 3),
    interval=st.integers(1, 4),
    delay=st.integers(0, 3),
    common_every=st.none() | st.integers(1, 9),
    seconds=st.lists(st.sampled_from([0.5, 1.0, 1.25, 7.0]), min_size=5, max_size=5),
)
def test_every_sum_is_of_all_and_every_worker_mixes_it(
    workers: int, fragments: int, interval: int, delay: int, common_every: int | None, seconds: list[float]
) -> None:
    """Whatever the speeds: nobody passes a sum that others have not offered for, and every job ends."""
    delay = min(delay, interval - 1)
    settings = {"period": fragments * interval, "fragments": fragments, "delay": delay}
    strategy = DiLoCo(**settings, mixing=0.5, common_every=common_every)
    size = {"num_workers": workers, "num_servers": 0, "global_batch_samples": workers, "num_samples": 12 * workers}
    run = HeapRun(strategy, make_job(**size, epochs=2, max_time_s=1e6), seconds).run()
    assert (run.core.status, run.core.shards.epochs_done) == ("done", 2)
    everyone = set(range(workers))
    steps: Counter[int] = Counter()
    offered, summed, mixed = Counter[int](), 0, Counter[int]()
    for command in run.commands:
        match command:
            case StepAlone(grads=(number,)):
                steps[run.grads[number].worker] += 1
                assert max(steps.values()) <= (summed + 1) * interval
            case SumFragment():
                offered.update(command.offer)
                assert all(offered[one] == summed + 1 and not (steps[one] + delay) % interval for one in command.offer)
                if command.sums:
                    assert {one for one in offered if offered[one] == summed + 1} == everyone
                    assert command.fragment == summed % fragments
                    summed += 1
                mixed.update(command.mix)
                assert all(mixed[one] == summed for one in command.mix)
            case Apply():
                assert all(mixed[one] == summed for one in everyone)
                for counter in (steps, offered, mixed):
                    counter.clear()
                summed = 0


def test_a_worker_that_is_early_waits_at_the_end_of_the_interval() -> None:
    """Worker 0 offers after one step and goes on; after two steps it waits until worker 1 has offered."""
    gate = begun(2, period=4, fragments=2, delay=1, mixing=0.25)
    first = grad(0, 0), grad(1, 0), grad(2, 1)
    assert gate.arrived(first[0]) == Verdict(
        step=first[:1], fragment=SumFragment(fragment=0, offer=(0,), kept_frac=0.25), go=(0,)
    )
    assert gate.arrived(first[1]) == Verdict(step=first[1:2])
    verdict = gate.arrived(first[2])
    assert verdict.fragment == SumFragment(fragment=0, offer=(1,), sums=True, mix=(0,), kept_frac=0.25)
    assert verdict.go == (0, 1)
    assert gate.arrived(grad(3, 0)).fragment == SumFragment(fragment=1, offer=(0,), kept_frac=0.25)


def test_at_the_end_of_the_data_what_is_summed_is_mixed_first() -> None:
    """Both have offered, worker 1 has mixed; worker 0 finds no data before it could."""
    gate = begun(2, period=2, delay=1)
    for number, worker in enumerate((0, 1, 1)):
        gate.arrived(grad(number, worker))
    assert gate.arrived(grad(3, 0, samples=0)) == Verdict()
    verdict = gate.arrived(grad(4, 1, samples=0))
    assert verdict.fragment == SumFragment(fragment=0, mix=(0,))
    assert [one.id for one in verdict.apply] == [0, 1, 2]
    assert (verdict.outer, verdict.go) == (True, (0, 1))


def test_who_waits_for_a_sum_is_not_waited_for_when_another_finds_no_data() -> None:
    gate = begun(2, period=1)
    assert gate.arrived(grad(0, 0)).go == ()
    verdict = gate.arrived(grad(1, 1, samples=0))
    assert (verdict.fragment, [one.id for one in verdict.apply]) == (None, [0])


def test_a_newcomer_comes_in_with_the_next_update() -> None:
    gate = begun(1, period=1, common_every=2)
    assert gate.joined(1) == Verdict()
    assert gate.arrived(grad(0, 0)).go == (0,)
    verdict = gate.arrived(grad(1, 0))
    assert verdict.fragment == SumFragment(fragment=0, offer=(0,), sums=True, mix=(0,))
    assert verdict.go == (0, 1)
    assert gate.lost(1, restarting=True) == Verdict()
    assert gate.joined(1) == Verdict(go=(1,))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"period": 5, "fragments": 2}, r"period=5: must be a multiple of fragments \(2\)"),
        ({"period": 4, "fragments": 2, "delay": 2}, r"delay=2: must be less than period / fragments \(2\)"),
        ({"fragments": 0}, "fragments=0: must be"),
        ({"delay": -1}, "delay=-1: must be"),
        ({"mixing": 1.5}, "mixing=1.5: must be"),
        ({"common_every": 0}, "common_every=0: must be"),
        ({"fragments": 2, "outer_momentum": 0.0}, "outer_nesterov=true: needs outer_momentum above 0"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_their_names(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DiLoCo(**wrong)


def test_a_strategy_says_what_it_needs() -> None:
    plain, turns, late = DiLoCo(), DiLoCo(fragments=2), DiLoCo(delay=1)
    assert [SumFragment in one.needs for one in (plain, turns, late)] == [False, True, True]
    assert [one.sums_meanwhile for one in (plain, turns, late)] == [False, False, True]
    assert [one.outer.get("fragments") for one in (plain, turns, late)] == [None, 2, 1]
