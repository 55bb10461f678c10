"""Gradient coding: the codes and the strategy, against Tandon et al. (ICML 2017) and Wang et al. (ICDCS 2019; the
clusters are those of its Table II)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from runtime.core.job import ComputeOrder
from strategies.gradient_coding import Code, GradientCoding, build, straggler_sets
from strategies.gradient_coding.matrices import cyclic, find_groups, group_based, heter_aware, naive, pack_groups
from strategies.gradient_coding.partitions import counts, default_parts, support
from strategies.gradient_coding.schemes import rate
from strategies.protocol import Apply, Compute, Partition
from tests.support.faults import Crash
from tests.support.harness import HeapRun, Rig, make_job, samples_of
from tests.support.laws import dead, miscounted, unconserved, unlawful
from tests.support.long_tests import long_after, rows_long_after

UNIT_SAMPLES = 840
"""Global batch: divides into the parts of all schemes here."""
SPEEDS = [1.0, 2.0, 3.0, 4.0, 4.0]
NEVER_S = 1e6


def worked(speeds: list[float], late: dict[int, float]) -> Callable[[int, ComputeOrder], float]:
    """Seconds in which a worker computes its samples; one unit of speed does a whole batch in a second."""

    def seconds(worker: int, order: ComputeOrder) -> float:
        own = samples_of(order)
        return own / UNIT_SAMPLES / speeds[worker] + late.get(worker, 0.0)

    return seconds


def played(
    scheme: str,
    s: int = 1,
    late: dict[int, float] | None = None,
    speeds: list[float] = SPEEDS,
    rounds: int = 20,
    **changes: Any,
) -> HeapRun:
    known = {} if scheme in ("naive", "fractional_repetition", "cyclic") else {"throughputs": speeds}
    strategy = GradientCoding(scheme=scheme, s=s, **{**known, **changes})
    job = make_job(
        num_workers=len(speeds),
        global_batch_samples=UNIT_SAMPLES,
        num_samples=rounds * UNIT_SAMPLES,
        epochs=1,
        max_time_s=1e9,
    )
    return HeapRun(strategy, job, worked(speeds, late or {})).run()


def round_s(run: HeapRun) -> float:
    """Seconds of a round, once it has settled."""
    ends = [t for t, _, _ in run.applied]
    return (ends[-1] - ends[4]) / (len(ends) - 5)


def test_heter_aware_workers_all_finish_together_at_the_optimum() -> None:
    """Theorem 5. Throughputs 1, 2, 3, 4, 4 and s = 1: (s + 1) / 14 = 1/7 s of each, the least that any code can do."""
    assert round_s(played("heter_aware", k=7)) == pytest.approx(1 / 7, rel=1e-3)
    assert round_s(played("naive", s=0)) == pytest.approx(0.2, rel=1e-3)
    assert round_s(played("cyclic")) == pytest.approx(0.2, rel=1e-3)


@pytest.mark.parametrize("scheme", ["cyclic", "heter_aware", "group_based"])
@pytest.mark.parametrize("delay_s", long_after([4.0, 0.5, NEVER_S], always=1))
def test_the_time_of_a_round_does_not_depend_on_one_workers_delay(scheme: str, delay_s: float) -> None:
    """Figure 2a: flat in the delay, and so with a worker that never answers."""
    for late in range(5):
        delayed = played(scheme, late={late: delay_s})
        assert dead(delayed) == []
        assert round_s(delayed) <= round_s(played(scheme, late={late: NEVER_S})) * (1 + 1e-9)


def test_cyclic_with_two_stragglers_rises_to_the_slow_workers_bound() -> None:
    """Figure 2b, cluster A: with s = 2 and two fast workers gone, one of the slowest counts."""
    speeds = [2.0, 2.0, 4.0, 4.0, 8.0, 8.0, 8.0, 12.0]
    calm, struck = (played("cyclic", 2, late, speeds) for late in ({}, {6: NEVER_S, 7: NEVER_S}))
    assert round_s(struck) == pytest.approx(2 * round_s(calm), rel=0.1)
    ours = played("heter_aware", 2, {6: NEVER_S, 7: NEVER_S}, speeds, k=8)
    assert round_s(struck) == pytest.approx(3 * round_s(ours), rel=0.1)


@pytest.mark.few(2)
@pytest.mark.parametrize("scheme", ["fractional_repetition", "cyclic", "heter_aware", "group_based"])
@pytest.mark.parametrize("s", [1, 2])
@pytest.mark.parametrize("first", long_after(range(3), always=1))
def test_every_update_is_the_full_gradient_whoever_is_missing(scheme: str, s: int, first: int) -> None:
    """Theorem 4: robust to any s stragglers."""
    speeds = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    for missing in [*combinations(range(6), s)][first::3]:
        run = played(scheme, s, dict.fromkeys(missing, NEVER_S), speeds)
        updates = [command for command in run.commands if isinstance(command, Apply)]
        assert len(updates) == 20
        assert not any(miscounted(run, update) for update in updates)
        assert not {run.grads[grad].worker for update in updates for grad in update.grads} & set(missing)
        assert unconserved(run) == []


def test_measured_throughputs_lead_to_the_code_of_given_ones_and_who_never_answers_counts_as_the_mean() -> None:
    """Departure from Wang et al., section IV (sampling beforehand): it begins with equal shares; after ten rounds
    all speeds are known, and all workers finish together. Departure from Wang et al., section IV: a worker that
    never delivers counts as the mean of the others, whose shares are then in proportion to their speeds."""
    run = played("heter_aware", throughputs=None, estimate_iters=3, k=7)
    assert {command.num_parts for command in run.commands if isinstance(command, Partition)} == {7}
    last = [command for command in run.commands if isinstance(command, Compute)][-5:]
    assert sorted(len(command.parts) for command in last) == [1, 2, 3, 4, 4]
    run = played("heter_aware", throughputs=None, estimate_iters=3, k=14, late={0: NEVER_S}, rounds=40)
    last = [command for command in run.commands if isinstance(command, Compute)][-4:]
    assert {command.worker: len(command.parts) for command in last} == {1: 3, 2: 5, 3: 7, 4: 7}


def test_few_samples_make_few_parts() -> None:
    """Beyond the paper: four samples a round are at most four parts, so none is left for a worker that is fifty
    times slower. Theorem 4 holds for any k: a batch of 8 samples for 8 workers of different speeds has 8 parts, not
    16."""
    strategy = GradientCoding(scheme="heter_aware", s=1, throughputs=[1.0, 50.0, 50.0, 50.0])
    job = make_job(num_workers=4, global_batch_samples=4, num_samples=40, epochs=1)
    run = HeapRun(strategy, job, [50.0, 1.0, 1.0, 1.0]).run()
    assert dead(run) == []
    assert {command.worker for command in run.commands if isinstance(command, Compute)} == {1, 2, 3}
    strategy = GradientCoding(s=2, throughputs=[2.0, 2.0, 4.0, 4.0, 8.0, 8.0, 8.0, 12.0])
    job = make_job(num_workers=8, global_batch_samples=8, num_samples=80, epochs=1)
    run = HeapRun(strategy, job, np.ones(8)).run()
    assert dead(run) == []


@pytest.mark.parametrize("gone", [1, 2, 3, 4])
def test_more_than_s_may_leave_for_good(gone: int) -> None:
    """Departure from Theorem 4: the round begins again with a code for the remaining workers; none waits, every sample
    counts once."""
    strategy = GradientCoding(scheme="cyclic", s=1)
    job = make_job(num_workers=5, global_batch_samples=10, num_samples=100, epochs=2)
    faults = [Crash(3.0 + worker, worker, None) for worker in range(gone)]
    run = HeapRun(strategy, job, [1.0, 1.1, 1.2, 1.3, 1.4], faults).run()
    assert [*dead(run), *unlawful(run), *unconserved(run)] == []
    # one that leaves is what a code is for, two are not
    assert run.core.strategy.log_state()["codes"] == 1 + gone // 2


def test_a_worker_that_returns_after_its_row_does_not_compute_it_again() -> None:
    """Beyond the paper: the row is at the servers, so the round ends with it and those of two others."""
    rig = Rig(GradientCoding(scheme="cyclic", s=1), make_job(num_workers=4, global_batch_samples=8)).start()
    rig.arrive(0)
    rig.lose(0)
    rig.join(0)
    assert rig.busy_workers() == [1, 2, 3]
    rig.arrive(1)
    rig.arrive(2)
    ((_, _, grads),) = rig.applied
    assert [grad.worker for grad in grads] == [0, 1, 2]
    assert rig.busy_workers() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "workers", "why"),
    [
        ({"s": 4}, 4, "s=4: must be below the number of workers, 4"),
        ({"scheme": "fractional_repetition", "s": 2}, 4, r"s=2: fractional repetition needs s \+ 1 = 3 to divide"),
        ({"scheme": "cyclic", "k": 5}, 4, "k=5: cyclic has one part per worker, 4; leave k out"),
        ({"scheme": "naive", "s": 1}, 4, "s=1: naive tolerates no straggler"),
        ({"throughputs": [1.0, 2.0]}, 4, r"throughputs=\[1.0, 2.0\]: must be one number for each of the 4 workers"),
        ({"throughputs": [0.0, 1.0]}, 2, r"throughputs=\[0.0, 1.0\]: must be a list of positive numbers"),
        ({"throughputs": "fast"}, 2, "throughputs=fast: must be a list of positive numbers"),
        ({"scheme": "cyclic", "s": 4, "draws": 1}, 16, "max_amplification=500: the best of 1 draws of cyclic"),
        ({"k": 1, "throughputs": [1.0, 1.0, 1.0]}, 3, None),
    ],
)
def test_a_setting_without_a_code_is_refused_by_name(changes: dict[str, Any], workers: int, why: str | None) -> None:
    """Tandon et al., section 3.1 and Wang et al., Lemma 1: what the schemes require."""
    if why is None:
        GradientCoding(**changes).validate(workers)
        return
    with pytest.raises(ValueError, match=f"^{why}"):
        GradientCoding(**changes).validate(workers)


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"k": 9}, "k=9: makes 9 parts of a global batch of 8"), ({"scheme": "cyclic"}, "scheme=cyclic: makes 9 parts")],
)
def test_parts_without_samples_are_refused(changes: dict[str, Any], why: str) -> None:
    """Beyond the paper: k is at most the samples of a round."""
    with pytest.raises(ValueError, match=why):
        GradientCoding(**changes).validate_batch(9, 8)


CLUSTERS = {
    "A": (2,) * 2 + (4,) * 2 + (8,) * 3 + (12,),
    "B": (2,) * 2 + (4,) * 4 + (8,) * 8 + (16,) * 2,
    "C": (2,) + (4,) * 4 + (8,) * 10 + (12,) * 12 + (16,) * 5,
    "D": (4,) * 4 + (8,) * 20 + (12,) * 18 + (16,) * 16,
}
"""vCPUs of every worker, taken for its throughput."""
PARTS = {"A": (12, 8), "B": (29, 58), "C": (161, 161), "D": (81, 54)}
"""The smallest k for which n_i = k (s + 1) c_i / sum(c) is whole, for s = 1 and 2."""
EVERY = [(cluster, s) for cluster in CLUSTERS for s in (1, 2)]


def chance() -> np.random.Generator:
    return np.random.default_rng(2019)


def proportional(cluster: str, s: int) -> np.ndarray:
    """The support of Eq. 5 to 7."""
    k = default_parts(CLUSTERS[cluster], s)
    return support(counts(CLUSTERS[cluster], k, s), k)


def seconds(code: Code, speeds: Sequence[float], dead: Sequence[int] = ()) -> float:
    """When the gradient can be decoded if computing everything takes 1 / c on a worker of throughput c (Eq. 3)."""
    m, k = code.matrix.shape
    loads = (code.matrix != 0).sum(axis=1)
    done = {worker: round(loads[worker] / (k * speeds[worker]), 12) for worker in range(m) if worker not in dead}
    for moment in sorted(set(done.values())):
        if code.decode([worker for worker, at in done.items() if at <= moment]).ok:
            return moment
    raise AssertionError(f"cannot be decoded without {dead}")


def worst_seconds(code: Code, speeds: Sequence[float], s: int) -> float:
    """Over all straggler sets, or a hundred of them; the s fastest in any case (workers are in ascending order)."""
    sets = [*straggler_sets(len(speeds), s, chance(), at_most=100), range(len(speeds) - s, len(speeds))]
    return max(seconds(code, speeds, [int(worker) for worker in dead]) for dead in sets)


@pytest.mark.parametrize(("cluster", "s"), EVERY)
def test_shares_are_proportional_and_every_part_has_s_plus_one_copies(cluster: str, s: int) -> None:
    """Eq. 5 holds without rounding for the smallest such k; the arcs of Eq. 6 give each part s + 1 workers."""
    speeds, k = CLUSTERS[cluster], PARTS[cluster][s - 1]
    assert default_parts(speeds, s) == k
    held = counts(speeds, k, s)
    assert [count * sum(speeds) for count in held] == [k * (s + 1) * speed for speed in speeds]
    assert (support(held, k).sum(axis=0) == s + 1).all()


@pytest.mark.parametrize("scheme", ["cyclic", "heter_aware", "group_based"])
@pytest.mark.parametrize(("cluster", "s"), EVERY)
def test_all_ones_are_spanned_by_whoever_is_left(scheme: str, cluster: str, s: int) -> None:
    """Condition 1 of Lemma 1 for every pattern of s stragglers, up to the 1653 of Cluster-D; a single draw, as the
    theorems say that a random one will do with probability 1."""
    speeds = CLUSTERS[cluster]
    rated = build(scheme, speeds, s, chance(), draws=1, max_amplification=1e12)
    every = straggler_sets(len(speeds), s, chance(), at_most=10**5)
    assert rate(rated.code, every).residual <= 1e-8
    if scheme != "cyclic":
        assert ((rated.code.matrix != 0) == proportional(cluster, s)).all()


@pytest.mark.parametrize("scheme", ["heter_aware", "group_based"])
@pytest.mark.parametrize(("cluster", "s"), rows_long_after(EVERY, always=3))
def test_the_worst_case_is_the_lower_bound(scheme: str, cluster: str, s: int) -> None:
    """Theorem 5. Nobody can be earlier than (s + 1) / sum(c) whole works: s + 1 copies of everything have to be
    computed."""
    speeds = CLUSTERS[cluster]
    code = build(scheme, speeds, s, chance(), draws=1, max_amplification=1e12).code
    assert worst_seconds(code, speeds, s) == pytest.approx((s + 1) / sum(speeds))


@pytest.mark.parametrize(
    ("cluster", "s", "ratios"),
    [
        ("A", 1, (1.50, 3.00, 3.00)),
        ("A", 2, (1.00, 1.50, 3.00)),
        ("B", 1, (1.81, 3.62, 3.62)),
        ("B", 2, (1.21, 1.81, 3.62)),
        ("C", 1, (2.52, 2.52, 5.03)),
        ("C", 2, (1.68, 2.52, 5.03)),
        ("D", 1, (1.40, 2.79, 2.79)),
        ("D", 2, (0.93, 2.79, 2.79)),
    ],
)
def test_cyclic_coding_is_slower_by_the_ratio_of_throughputs(
    cluster: str, s: int, ratios: tuple[float, float, float]
) -> None:
    """Wang et al., Figure 2. Times of naive, of cyclic with no fault and of cyclic with the worst one over that of
    heter-aware: cyclic coding waits for weak workers that have s + 1 times the work. mean(c) / min(c) = 3 on Cluster-A:
    "up to 3x"."""
    speeds = CLUSTERS[cluster]
    best = (s + 1) / sum(speeds)
    coded = Code(cyclic(len(speeds), s, chance()))
    found = seconds(Code(naive(len(speeds))), speeds), seconds(coded, speeds), worst_seconds(coded, speeds, s)
    assert [time / best for time in found] == pytest.approx(list(ratios), abs=0.006)


@pytest.mark.parametrize(
    ("cluster", "s", "found", "kept"),
    [("A", 1, 4, [3, 5]), ("A", 2, 5, [2, 3, 3]), ("C", 1, 0, []), ("B", 2, 0, []), ("C", 2, 0, [])],
)
def test_groups_exist_where_throughputs_add_up(cluster: str, s: int, found: int, kept: list[int]) -> None:
    """Algorithm 2. A group has exactly sum(c) / (s + 1) of the throughput: impossible where that is odd or not
    whole."""
    mask = proportional(cluster, s)
    groups = pack_groups(mask)
    assert len(find_groups(mask)) == found
    assert sorted(len(group) for group in groups) == kept
    for group in groups:
        assert sum(CLUSTERS[cluster][worker] for worker in group) * (s + 1) == sum(CLUSTERS[cluster])


@pytest.mark.parametrize(("cluster", "s", "number"), [("B", 1, 2), ("D", 1, 2), ("D", 2, 3)])
def test_disjoint_groups_of_large_clusters(cluster: str, s: int, number: int) -> None:
    """Algorithm 2, its pruning. As many as there are copies, though the search is cut off: Cluster-D has tens of
    thousands of groups at s = 2."""
    groups = pack_groups(proportional(cluster, s), at_most=500)
    assert len(groups) == number
    assert all(set(one).isdisjoint(other) for one, other in combinations(groups, 2))


def test_groups_need_fewer_workers() -> None:
    """Algorithm 3, Theorem 6. Cluster-A, s = 1: the 3 workers of a group are enough, where no 3 workers are with
    Algorithm 1 alone."""
    mask = proportional("A", 1)
    groups = pack_groups(mask)
    grouped = Code(group_based(mask, groups, chance()), tuple(groups))
    alone = Code(heter_aware(mask, chance()))
    assert len(groups[0]) == 3
    assert grouped.decode(groups[0]).ok
    assert not any(alone.decode(workers).ok for workers in combinations(range(8), 3))
    assert all(alone.decode(workers).ok for workers in combinations(range(8), 7))
