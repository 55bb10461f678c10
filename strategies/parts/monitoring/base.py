"""The common part of detectors: usable iterations, clusters of similar values, and the abilities that others use.

A detector observes events (``observe_event``), and other parts query it: by its class, or by an ability, which a
detector of your own may have, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Literal, Protocol, final, runtime_checkable

from strategies.protocol import Arrived, Ready


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


@final
class Warmup:
    """Accepts whole batches, except the first ``warmup_iters`` of a process (imports, allocation, caches).

    The short batches at the end of an epoch are misleading: fewer samples share their fixed costs.
    """

    def __init__(self, warmup_iters: int) -> None:
        self.warmup_iters = warmup_iters
        self._seen: dict[int, tuple[int, int]] = {}

    def tells(self, event: Arrived | Ready) -> bool:
        """Whether this iteration's time may be used; call it once per iteration."""
        grad = event.grad
        if not 0 < grad.samples == grad.assigned_samples or event.timings.bpt_s <= 0:
            return False
        incarnation, count = self._seen.get(grad.worker, (grad.incarnation, 0))
        count = count + 1 if incarnation == grad.incarnation else 1
        self._seen[grad.worker] = (grad.incarnation, count)
        return count > self.warmup_iters


@runtime_checkable
class ExpectsTimes(Protocol):
    """A detector that predicts the time of every worker's next iteration."""

    def expected_s(self, worker: int, t: float) -> float | None:
        """Expected seconds of the worker's own part at time ``t``; None if nothing is known."""
        ...


@runtime_checkable
class FindsStragglers(Protocol):
    """A detector of slow nodes."""

    def stragglers(self, span: Literal["short", "long"]) -> list[int]:
        """Workers that are slow by the short or the long window, slowest first."""
        ...

    def slow_servers(self, min_update_s: float = 0.0) -> list[int]:
        """Servers that are slow and take ``min_update_s`` per update or more, slowest first."""
        ...


@runtime_checkable
class MeasuresNoise(Protocol):
    """A detector that knows the gradient noise scale."""

    def phi_of(self, batch_samples: float) -> tuple[float, float] | None:
        """The noise scale in samples at updates of ``batch_samples``, and how many updates old the measurement is.

        None: nothing is known yet.
        """
