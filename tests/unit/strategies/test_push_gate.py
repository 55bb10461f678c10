"""SGP's gate: halves are those of the circle, a worker waits for one alone, every job ends with all halves added."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.parts.gates import Verdict
from strategies.protocol import Apply, Compute, Grad, PushHalf, StepAlone
from strategies.sgp import SGP
from strategies.sgp.pushing import PushGate, places_on
from tests.support.harness import HeapRun, make_job


def grad(number: int, worker: int, samples: int = 4) -> Grad:
    return Grad(
        id=number, worker=worker, incarnation=0, iteration=0, version=0, samples=samples, assigned_samples=samples
    )


def begun(*workers: int, **settings: Any) -> PushGate:
    gate = PushGate(**settings)
    assert gate.begin(workers, 0) == workers
    return gate


@given(
    workers=st.integers(1, 9),
    overlap_iters=st.integers(0, 3),
    common_every=st.sampled_from([None, 1, 3]),
    seconds=st.lists(st.sampled_from([0.5, 1.0, 1.25, 7.0]), min_size=9, max_size=9),
)
def test_a_worker_waits_for_one_half_alone_and_every_job_ends(
    workers: int, overlap_iters: int, common_every: int | None, seconds: list[float]
) -> None:
    """Whatever the speeds: when a worker computes on after a step, the half of ``overlap_iters`` steps before is added.

    It adds none of a step that is to come, and every half is added before the update of all.
    """
    size = {"num_workers": workers, "num_servers": 0, "global_batch_samples": workers, "num_samples": 12 * workers}
    job = make_job(**size, epochs=2, max_time_s=1e6)
    run = HeapRun(SGP(overlap_iters=overlap_iters, common_every=common_every), job, seconds).run()
    assert (run.core.status, run.core.shards.epochs_done) == ("done", 2)
    steps, taken, added = Counter[int](), Counter[tuple[int, int]](), set[tuple[int, int]]()
    sent = 0
    for line in run.lines:
        updates = any(isinstance(command, Apply) for command in line.commands)
        for command in line.commands:
            match command:
                case StepAlone():
                    steps.update(run.grads[one].worker for one in command.grads)
                case PushHalf(worker=worker, to=to, adds=adds):
                    if to is not None:
                        assert to == (worker + places_on(steps[worker] - 1, workers)) % workers
                        sent += 1
                    for source in adds:
                        taken[source, worker] += 1
                        number = nth(workers, source, worker, taken[source, worker])
                        assert number <= steps[worker] or updates
                        added.add((worker, number))
                case Apply():
                    assert len(added) == sent
                    steps.clear()
                    taken.clear()
                    added.clear()
                    sent = 0
                case Compute(worker=worker) if workers > 1:
                    due = steps[worker] - overlap_iters
                    assert due < 1 or (worker, due) in added


def nth(size: int, source: int, target: int, count: int) -> int:
    """The step, from 1 on, after which ``source`` sends its half number ``count`` to ``target``."""
    step = 0
    while count:
        count -= (source + places_on(step, size)) % size == target
        step += 1
    return step


def test_a_worker_that_is_served_goes_on_and_its_target_does_if_it_waits_for_that() -> None:
    gate = begun(0, 1)
    assert gate.arrived(grad(0, 0)) == Verdict(step=(grad(0, 0),), push=(PushHalf(worker=0, to=1),))
    assert gate.log_state() == {"waiting": 1, "halves": 1, "steps_alone": 1}
    assert gate.arrived(grad(1, 1)) == Verdict(
        step=(grad(1, 1),),
        push=(PushHalf(worker=1, to=0), PushHalf(worker=1, adds=(0,)), PushHalf(worker=0, adds=(1,))),
        go=(1, 0),
    )


def test_with_overlap_a_worker_is_so_many_steps_ahead_and_halves_come_late() -> None:
    gate = begun(0, 1, overlap_iters=1)
    assert gate.arrived(grad(0, 0)) == Verdict(step=(grad(0, 0),), push=(PushHalf(worker=0, to=1),), go=(0,))
    assert gate.arrived(grad(1, 0)) == Verdict(step=(grad(1, 0),), push=(PushHalf(worker=0, to=1),))
    verdict = gate.arrived(grad(2, 1))
    assert verdict.push == (PushHalf(worker=1, to=0), PushHalf(worker=1, adds=(0,)), PushHalf(worker=0, adds=(1,)))
    assert verdict.go == (1, 0), "the half of the second step is of the next iteration of worker 1"


def test_after_common_every_steps_all_are_averaged() -> None:
    gate = begun(0, 1, common_every=2, overlap_iters=3)
    for number in range(2):
        gate.arrived(grad(number, 0))
    assert gate.arrived(grad(2, 1)).go == (1,)
    verdict = gate.arrived(grad(3, 1))
    assert [one.id for one in verdict.apply] == [0, 1, 2, 3]
    assert verdict.push == (PushHalf(worker=0, adds=(1,)),), "the only half that is not added"
    assert (verdict.go, verdict.outer) == ((0, 1), True)


def test_who_finds_no_data_ends_all_waits() -> None:
    gate = begun(0, 1, 2)
    gate.arrived(grad(0, 0))
    assert gate.arrived(grad(1, 1, samples=0)) == Verdict()
    verdict = gate.arrived(grad(2, 2, samples=0))
    assert (verdict.push, verdict.go) == ((PushHalf(worker=1, adds=(0,)),), (0, 1, 2))
    assert [one.id for one in verdict.apply] == [0]


def test_places_in_the_circle_are_ranks_among_the_members() -> None:
    """Without worker 1 of four."""
    gate = begun(0, 2, 3)
    assert [gate.arrived(grad(worker, worker)).push[0].to for worker in (0, 2, 3)] == [2, 3, 0]


def test_no_worker_waits_for_known_others() -> None:
    """So a cluster takes nothing from a worker on the ground that it waits."""
    assert begun(0, 1).waiting_groups() == []


def test_it_needs_replicas_that_push_while_others_compute() -> None:
    strategy = SGP()
    assert (strategy.topologies, strategy.sums_meanwhile) == ({"allreduce"}, True)
    assert {StepAlone, PushHalf} <= strategy.needs


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"overlap_iters": -1}, "overlap_iters=-1: must be"), ({"common_every": 0}, "common_every=0: must be")],
)
def test_settings_out_of_range_are_refused_by_their_names(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SGP(**wrong)
