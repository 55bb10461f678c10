"""Clusters of similar values, by ratio (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise


def cluster_by_ratio(values: Sequence[float], ratio: float, at_most: int | None = None) -> list[list[int]]:
    """Indices of positive ``values`` in groups whose largest is at most ``ratio`` times their smallest, smallest first.

    Complete linkage of the logarithms: beginning with single values, the two neighbours whose union has the smallest
    ratio are merged (ties: the smaller values) while that is allowed. So the groups do not depend on the unit.
    With ``at_most``, merging continues until there are no more groups than that. O(n log n).
    """
    order = sorted(range(len(values)), key=lambda index: (values[index], index))
    ordered = [values[index] for index in order]
    stop = {place: place + 1 for place in range(len(order))}  # a group is ordered[start:stop[start]]
    start = {end: begin for begin, end in stop.items()}
    unions = [(high / low, place, place + 1, place + 2) for place, (low, high) in enumerate(pairwise(ordered))]
    heapify(unions)
    while unions:
        nearest, low, middle, high = heappop(unions)
        if stop.get(low) != middle or stop.get(middle) != high:  # one of the two is part of another by now
            continue
        if nearest > ratio and (at_most is None or len(stop) <= at_most):
            break
        del stop[middle], start[middle]
        stop[low], start[high] = high, low
        for begin, between, end in ((start.get(low), low, high), (low, high, stop.get(high))):
            if begin is not None and end is not None:
                heappush(unions, (ordered[end - 1] / ordered[begin], begin, between, end))
    return [sorted(order[begin : stop[begin]]) for begin in sorted(stop)]
