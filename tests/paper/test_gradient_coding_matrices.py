"""The codes against their sources: Tandon et al., "Gradient coding", ICML 2017, and Wang et al., "Heterogeneity-aware
gradient coding for straggler tolerance", ICDCS 2019 (the clusters are those of its Table II)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from strategies.gradient_coding import Code, build, straggler_sets
from strategies.gradient_coding.matrices import cyclic, find_groups, group_based, heter_aware, naive, packed
from strategies.gradient_coding.partitions import counts, default_parts, support
from strategies.gradient_coding.schemes import rate
from tests.support.long_tests import rows_long_after

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
    groups = packed(mask)
    assert len(find_groups(mask)) == found
    assert sorted(len(group) for group in groups) == kept
    for group in groups:
        assert sum(CLUSTERS[cluster][worker] for worker in group) * (s + 1) == sum(CLUSTERS[cluster])


@pytest.mark.parametrize(("cluster", "s", "number"), [("B", 1, 2), ("D", 1, 2), ("D", 2, 3)])
def test_disjoint_groups_of_large_clusters(cluster: str, s: int, number: int) -> None:
    """Algorithm 2, its pruning. As many as there are copies, though the search is cut off: Cluster-D has tens of
    thousands of groups at s = 2."""
    groups = packed(proportional(cluster, s), at_most=500)
    assert len(groups) == number
    assert all(set(one).isdisjoint(other) for one, other in combinations(groups, 2))


def test_groups_need_fewer_workers() -> None:
    """Algorithm 3, Theorem 6. Cluster-A, s = 1: the 3 workers of a group are enough, where no 3 workers are with
    Algorithm 1 alone."""
    mask = proportional("A", 1)
    groups = packed(mask)
    grouped = Code(group_based(mask, groups, chance()), tuple(groups))
    alone = Code(heter_aware(mask, chance()))
    assert len(groups[0]) == 3
    assert grouped.decode(groups[0]).ok
    assert not any(alone.decode(workers).ok for workers in combinations(range(8), 3))
    assert all(alone.decode(workers).ok for workers in combinations(range(8), 7))
