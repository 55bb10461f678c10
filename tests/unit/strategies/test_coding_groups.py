"""Groups against worked clusters and brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.gradient_coding.decoding import Group, Mask
from strategies.gradient_coding.matrices import find_groups, group_based, packed, pruned
from strategies.gradient_coding.partitions import counts, support

SIX_EQUAL = support(counts([1] * 6, 6, 2), 6)


def chance() -> np.random.Generator:
    return np.random.default_rng(0)


@st.composite
def supports(draw: st.DrawFn) -> tuple[Mask, int]:
    """(support, s) of up to eight workers; few parts, so that groups are frequent."""
    throughputs = draw(st.lists(st.sampled_from([1, 2, 4]), min_size=2, max_size=8))
    k, s = draw(st.integers(1, 12)), draw(st.integers(0, len(throughputs) - 1))
    return support(counts(throughputs, k, s), k), s


def by_trying_everything(mask: Mask) -> list[Group]:
    """Every set of workers that hold something and hold every part once."""
    busy = [worker for worker in range(len(mask)) if mask[worker].any()]
    sets = (group for size in range(1, len(busy) + 1) for group in combinations(busy, size))
    return [group for group in sets if (mask[list(group)].sum(axis=0) == 1).all()]


@pytest.mark.parametrize(
    ("throughputs", "s", "k", "groups"),
    [
        ([1, 2, 3, 4, 4], 1, 7, [(2, 3), (0, 1, 4)]),
        ([1] * 6, 2, 6, [(0, 1), (2, 3), (4, 5)]),
        ([1] * 8, 2, 8, []),
        ([1, 1, 2, 2, 2, 4, 4], 2, 8, [(0, 6)]),
        ([1] * 3, 0, 3, [(0, 1, 2)]),
        ([1] * 3, 2, 3, [(0,), (1,), (2,)]),
    ],
)
def test_worked_clusters(throughputs: list[float], s: int, k: int, groups: list[Group]) -> None:
    assert packed(support(counts(throughputs, k, s), k)) == groups


@given(supports())
def test_all_groups_are_found_once(case: tuple[Mask, int]) -> None:
    mask, s = case
    found = find_groups(mask)
    assert sorted(found) == sorted(by_trying_everything(mask))
    assert all(len(group) <= len(mask) - s for group in found)


@given(supports())
def test_packing_keeps_the_smallest_that_are_disjoint(case: tuple[Mask, int]) -> None:
    """Searching again among those that are left is the same as going through the whole list once."""
    mask, s = case
    kept: list[Group] = []
    for group in sorted(by_trying_everything(mask), key=lambda group: (len(group), group)):
        if all(set(group).isdisjoint(other) for other in kept):
            kept.append(group)
    assert packed(mask) == kept
    assert len(kept) <= s + 1


def test_pruning_as_the_paper_has_it_may_keep_fewer() -> None:
    """Six equal workers, s = 2: nine groups, each of one even and one odd worker, each meeting four others. The last of
    those that meet most goes, by hand: (4,5), (2,3), (0,1), (3,4), (2,5), (1,4), (0,5)."""
    assert pruned(find_groups(SIX_EQUAL)) == [(0, 3), (1, 2)]
    assert len(packed(SIX_EQUAL)) == 3


def test_a_search_stops_and_goes_on_among_the_others() -> None:
    """58 equal workers have 2^29 groups at s = 1; cut off after ten, the second group is still found."""
    mask = support(counts([1] * 58, 58, 1), 58)
    assert len(find_groups(mask, at_most=10)) == 10
    first, second = packed(mask, at_most=10)
    assert len(first) == len(second) == 29
    assert set(first).isdisjoint(second)


def test_what_leads_nowhere_is_not_tried_twice() -> None:
    """Forty pairs of equal workers and a part that nobody holds: 2^40 ways to find out that there is no group."""
    mask = np.zeros((80, 81), dtype=np.bool_)
    for worker in range(80):
        first = worker // 2 * 2
        mask[worker, first : first + 2] = True
    assert find_groups(mask) == []


@pytest.mark.parametrize("groups", [[(0, 1), (1, 2)], [(0,)], [(0, 2), (1, 3)], [(0, 1, 2)]])
def test_what_is_no_group_is_refused(groups: list[Group]) -> None:
    """A worker in two groups; missing parts; duplicate parts."""
    with pytest.raises(ValueError, match="must be disjoint, and each must hold every part exactly once"):
        group_based(SIX_EQUAL, groups, chance())
