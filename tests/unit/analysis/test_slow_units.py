"""Who is slow together, since when and in which part, and what curing it saves: jobs whose clean times are known."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.logs.step_log import StepLog
from analysis.measures.phases import period_of, runs
from analysis.measures.slow_units import course, groups, hosts_of
from analysis.measures.straggling import Straggling, straggling
from tests.support.planted_causes import planted_job


def found_in(log: StepLog) -> Straggling:
    return straggling(log, barrier=True, slow_frac=0.1)


def log_of(own_s: np.ndarray, pause_s: np.ndarray | float = 0.0) -> StepLog:
    """With barriers, after which all pause."""
    steps, ranks = own_s.shape
    round_s = own_s.max(axis=1) + pause_s
    return StepLog(
        source="", ranks=tuple(map(str, range(ranks))), steps=tuple(range(steps)), own_s=own_s, round_s=round_s
    )


def calm(steps: int = 200) -> np.ndarray:
    return np.exp(0.02 * np.random.default_rng(2).standard_normal((steps, 64)))


@pytest.mark.parametrize("columns", [("work",), ("comm",), ("work", "comm"), ("work", "comm", "data"), ()])
def test_the_time_of_the_job_is_that_of_its_steps_whatever_columns_are_named(columns: tuple[str, ...]) -> None:
    job = planted_job(0)
    by_rank = job.seconds.sum(axis=0)
    assert by_rank.min() <= found_in(job.log(*columns)).actual_s <= 1.005 * by_rank.max()


def test_pauses_are_named_with_their_period_and_nobody_is_blamed() -> None:
    pause_s = np.zeros(200)
    pause_s[39::40] = 7.0
    found = found_in(log_of(calm(), pause_s))
    assert (found.pauses.period, found.pauses.count) == (40, 5)
    assert found.pauses.seconds == pytest.approx(5 * 7.0, rel=0.01)
    assert not found.units


def test_two_hosts_are_two_units_and_together_save_what_both_do() -> None:
    own_s = calm()
    own_s[130:, 8:16] *= 1.5
    own_s[:, 32:40] *= 1.3
    found = straggling(log_of(own_s), barrier=True, slow_frac=0.1, ranks_per_host=8)
    since = {unit.group.members: unit.course.since for unit in found.units}
    assert since == {tuple(range(8, 16)): 130, tuple(range(32, 40)): 0}
    saved = 1 - calm().max(axis=1).sum() / own_s.max(axis=1).sum()
    assert found.saved_s(found.units).sum() / found.actual_s == pytest.approx(saved, abs=0.01)


def hiccups(of_rank_3: int) -> StepLog:
    """One slow step of each of twelve ranks, in all kinds of steps, and so many of rank 3."""
    rng = np.random.default_rng(4)
    own_s = np.exp(0.01 * rng.standard_normal((400, 64)))
    for place in range(12):
        own_s[30 * place + 7, 5 * place + 1] *= 2.0
    own_s[rng.choice(400, of_rank_3, replace=False), 3] *= 2.0
    return log_of(own_s)


def test_a_few_events_that_may_come_to_any_rank_have_no_name_and_their_cost_is_said() -> None:
    found = found_in(hiccups(of_rank_3=3))
    assert found.units == ()
    assert found.scattered_frac == pytest.approx(15 / 415, rel=0.1)
    (unit,) = found_in(hiccups(of_rank_3=12)).units
    assert unit.group.members == (3,)


def test_other_slow_steps_of_its_ranks_are_not_what_a_straggler_costs() -> None:
    own_s = calm()
    own_s[50:, 8:16] *= 1.5
    own_s[5, 8] *= 30.0
    unit, *_ = found_in(log_of(own_s)).units
    assert unit.course.since == 50
    assert not unit.saved_s[:50].any()


NAMES = {
    ("node1:0", "node1:1", "node2:0", "node2:1"): ("node1", "node1", "node2", "node2"),
    ("a/rank0", "a/rank1", "b/rank0", "b/rank1"): ("a", "a", "b", "b"),
    ("n1_gpu0", "n1_gpu1", "n2_gpu0", "n2_gpu1"): ("n1", "n1", "n2", "n2"),
    ("0", "1", "2", "3"): (),
    ("rank0", "rank1", "rank2", "rank3"): (),
    ("worker-1", "worker-2", "trainer-1", "chief"): (),
}


def test_names_of_ranks_may_tell_their_hosts() -> None:
    for ranks, hosts in NAMES.items():
        assert hosts_of(ranks, (), None) == hosts
        assert hosts_of(ranks, ("x", "x", "y", "y"), 3) == ("x", "x", "y", "y")
        if not hosts:
            assert hosts_of(ranks, (), 3) == ("0", "0", "0", "1")


def mask(ranks: int, *members: int, steps: int = 50) -> np.ndarray:
    slow = np.zeros((steps, ranks), bool)
    slow[10:30, list(members)] = True
    return slow


GROUPED = {
    (8, (2,)): ["rank 2"],
    (8, (2, 3)): ["rank 2", "rank 3"],
    (8, (2, 3, 4, 5)): ["ranks 2 to 5"],
    (12, (1, 5, 9)): ["ranks 1, 5, 9 ... (one in 4, 3 in all)"],
    (16, (1, 5, 9)): ["rank 1", "rank 5", "rank 9"],
}


def test_ranks_without_hosts_are_grouped_by_number() -> None:
    for (ranks, members), names in GROUPED.items():
        found = groups(mask(ranks, *members), list(members), tuple(map(str, range(ranks))), ())
        assert [group.name for group in found] == names


def test_hosts_that_are_slow_together_are_one_group() -> None:
    """Each hides what another one costs."""
    ranks, hosts = tuple(map(str, range(16))), tuple(f"h{each // 2}" for each in range(16))
    (row,) = groups(mask(16, *range(4, 10)), list(range(4, 10)), ranks, hosts)
    assert (row.form, row.name) == ("host", "hosts h2 to h4 (all 6 ranks)")
    (two,) = groups(mask(16, 0, 1, 8, 9), [0, 1, 8, 9], ranks, hosts)
    assert two.name == "hosts h0, h4 (all 4 ranks)"
    many = [place for place in range(16) if place // 2 not in (3, 7)]
    (most,) = groups(mask(16, *many), many, ranks, hosts)
    assert most.name == "hosts h0, h1, h2, h4 and 2 more (all 12 ranks)"


def test_ranks_of_a_host_are_slow_if_most_are_and_at_the_same_time() -> None:
    ranks, hosts = tuple(map(str, range(8))), ("a",) * 4 + ("b",) * 4
    (most,) = groups(mask(8, 4, 5, 7), [4, 5, 7], ranks, hosts)
    assert (most.form, most.name) == ("host", "host b (3 of 4 ranks)")
    assert [group.name for group in groups(mask(8, 4, 5), [4, 5], ranks, hosts)] == ["rank 4", "rank 5"]
    assert groups(mask(8), [], ranks, hosts) == []
    slow = mask(8, 2, 3, 4, 5)
    slow[:, 3] = np.roll(slow[:, 3], 15)
    found = groups(slow, [2, 3, 4, 5], tuple(map(str, range(8))), ())
    assert sorted(group.name for group in found) == ["rank 2", "rank 3", "rank 4", "rank 5"]


def series(*slices: slice, steps: int = 200) -> np.ndarray:
    slow = np.zeros(steps, bool)
    for each in slices:
        slow[each] = True
    return slow


COURSES = [
    (series(slice(90, None)), ("persistent", 90, 200, None, 1)),
    (series(slice(None)), ("persistent", 0, 200, None, 1)),
    (series(slice(20, 60)), ("once", 20, 60, None, 1)),
    (series(slice(9, None, 20)), ("periodic", 9, 190, 20, 10)),
    (series(slice(5, 10), slice(40, 50), slice(190, 200)), ("transient", 5, 200, None, 3)),
    (series(slice(198, 200)), ("once", 198, 200, None, 1)),
    (series(slice(10, 12), slice(100, None)), ("persistent", 100, 200, None, 2)),
]


@pytest.mark.parametrize(("slow", "expected"), COURSES, ids=[str(each[1][0]) + str(each[1][1]) for each in COURSES])
def test_a_course_is_named(slow: np.ndarray, expected: tuple[object, ...]) -> None:
    assert course(slow) == expected


def test_a_period_needs_regular_events_and_runs_with_a_small_gap_are_one() -> None:
    assert period_of([0, 10, 20, 30]) == period_of([0, 10, 20, 40, 50]) == 10
    assert [period_of(starts) for starts in ([0, 10, 20], [0, 3, 20, 24, 50], [0, 2, 4, 6])] == [None] * 3
    slow = series(slice(2, 4), slice(5, 6), slice(9, 10), steps=12)
    assert runs(slow) == [(2, 4), (5, 6), (9, 10)]
    assert runs(slow, 1) == [(2, 6), (9, 10)]
