"""Clusters of similar values, by ratio (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def cluster_by_ratio(values: Sequence[float], ratio: float, at_most: int | None = None) -> list[list[int]]:
    """Indices of positive ``values`` in groups whose largest is at most ``ratio`` times their smallest, smallest first.

    Complete linkage of the logarithms: beginning with single values, the two neighbours whose union has the smallest
    ratio are merged (ties: the smaller values) while that is allowed. So the groups do not depend on the unit.
    With ``at_most``, merging continues until there are no more groups than that.
    """
    order = sorted(range(len(values)), key=lambda index: (values[index], index))
    groups = [[index] for index in order]
    while len(groups) > 1:
        unions = [values[right[-1]] / values[left[0]] for left, right in pairwise(groups)]
        nearest = min(range(len(unions)), key=lambda place: (unions[place], place))
        if unions[nearest] > ratio and (at_most is None or len(groups) <= at_most):
            break
        groups[nearest : nearest + 2] = [groups[nearest] + groups[nearest + 1]]
    return [sorted(group) for group in groups]
