"""Prague's gate: groups do not overlap, a slow worker is left out, newcomers enter with an update of all."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.parts.gates import Verdict
from strategies.parts.shuffled import shuffled
from strategies.prague import Prague
from strategies.prague.divided import DividedGate
from strategies.protocol import Apply, Average, Grad, StepAlone
from tests.support.harness import HeapRun, make_job


def grad(number: int, worker: int, samples: int = 4) -> Grad:
    return Grad(
        id=number, worker=worker, incarnation=0, iteration=0, version=0, samples=samples, assigned_samples=samples
    )


def begun(workers: int, **settings: Any) -> DividedGate:
    gate = DividedGate(**settings)
    assert gate.begin(range(workers), 0) == tuple(range(workers))
    return gate


@given(
    workers=st.integers(1, 9),
    group_size=st.integers(1, 5),
    max_behind=st.integers(1, 3),
    period=st.integers(1, 3),
    seconds=st.lists(st.sampled_from([0.5, 1.0, 1.25, 7.0]), min_size=9, max_size=9),
)
def test_no_worker_is_in_two_groups_and_every_job_ends(
    workers: int, group_size: int, max_behind: int, period: int, seconds: list[float]
) -> None:
    """Whatever the speeds: an average is of at most so many idle workers, of which each has made ``period`` steps."""
    strategy = Prague(group_size=group_size, max_behind=max_behind, period=period)
    size = {"num_workers": workers, "num_servers": 0, "global_batch_samples": workers, "num_samples": 12 * workers}
    job = make_job(**size, epochs=2, max_time_s=1e6)
    run = HeapRun(strategy, job, seconds).run()
    assert (run.core.status, run.core.shards.epochs_done) == ("done", 2)
    steps: Counter[int] = Counter()
    for line in run.lines:
        for command in line.commands:
            match command:
                case StepAlone():
                    steps.update(run.grads[one].worker for one in command.grads)
                case Apply():
                    steps.clear()
                case Average():
                    assert 2 <= len(command.workers) <= group_size
                    assert all(steps[worker] and steps[worker] % period == 0 for worker in command.workers)


def test_a_division_makes_groups_of_nearly_equal_size() -> None:
    gate = begun(7, group_size=3)
    gate.arrived(grad(0, 4))
    assert sorted(map(len, gate.waiting_groups())) == [2, 2, 3]
    assert sorted(worker for group in gate.waiting_groups() for worker in group) == list(range(7))


def test_divisions_differ_and_follow_from_the_seed() -> None:
    """All orders of three are about equally likely: 600 draws have each about 100 times; sigma is 9."""
    drawn = Counter(tuple(shuffled(range(3), 5, number)) for number in range(600))
    assert drawn.keys() == {*permutations(range(3))}
    assert max(abs(times - 100) for times in drawn.values()) < 5 * 9
    assert shuffled(range(9), 5, 1) == shuffled(reversed(range(9)), 5, 1) != shuffled(range(9), 6, 1)


def test_a_worker_without_data_ends_the_wait_for_groups() -> None:
    """Worker 0 waits for its group; when worker 1 finds no data, both wait for the update of all."""
    gate = begun(2, group_size=1)
    assert gate.arrived(grad(0, 0)) == Verdict(step=(grad(0, 0),), go=(0,))
    gate = begun(3, group_size=3)
    assert gate.arrived(grad(0, 0)) == Verdict(step=(grad(0, 0),))
    assert gate.arrived(grad(1, 1, samples=0)) == Verdict()
    assert gate.arrived(grad(2, 2)) == Verdict(
        step=(grad(2, 2),), apply=(grad(0, 0), grad(2, 2)), go=(0, 1, 2), outer=True
    )


def test_all_average_after_common_every_steps() -> None:
    """Two steps of each of two workers, whoever makes them; groups of one worker never wait."""
    gate = begun(2, group_size=1, common_every=2)
    for number in range(3):
        assert gate.arrived(grad(number, 0)).go == (0,)
    assert gate.arrived(grad(3, 0)) == Verdict(step=(grad(3, 0),))
    verdict = gate.arrived(grad(4, 1))
    assert [one.id for one in verdict.apply] == [0, 1, 2, 3, 4]
    assert (verdict.go, verdict.outer) == ((0, 1), True)


def test_a_newcomer_enters_with_the_next_update_and_counts_as_far_as_the_first() -> None:
    gate = begun(2, group_size=2)
    assert gate.joined(2) == Verdict()
    gate.arrived(grad(0, 0))
    assert gate.arrived(grad(1, 1)).go == (0, 1, 2)
    assert gate.averages == {0: 1, 1: 1, 2: 1}
    gate.joined(3)
    gate.lost(3, restarting=False)
    for worker in range(3):
        gate.arrived(grad(2 + worker, worker, samples=0))
    assert gate.roster.all() == (0, 1, 2)


def test_the_first_worker_of_all_begins_at_once() -> None:
    gate = DividedGate()
    assert gate.begin((), 0) == ()
    assert gate.joined(5) == Verdict(go=(5,), opens=True)
    assert gate.arrived(grad(0, 5)).apply == (grad(0, 5),)


def test_without_a_filter_as_narrow_a_slow_worker_is_waited_for_longer() -> None:
    """Four workers in pairs, the last eight times slower: the wider the filter, the later the job ends."""
    ends = []
    for max_behind in (1, 4, 100):
        job = make_job(num_workers=4, num_servers=0, num_samples=240, epochs=1, max_time_s=1e6)
        run = HeapRun(Prague(max_behind=max_behind), job, [1, 1, 1, 8]).run()
        assert any(isinstance(command, Average) for command in run.commands)
        ends.append(run.t)
    assert ends == sorted(ends)
    assert ends[0] < ends[-1]


@pytest.mark.parametrize("field", ["group_size", "period", "max_behind", "common_every"])
def test_settings_out_of_range_are_refused_by_their_names(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}=0: must be"):
        Prague(**{field: 0})
