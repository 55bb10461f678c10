"""Where the workers of a gang go, by the free GPUs of the machines (pure)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def on_fewest(gpus: int, free: Sequence[int], most: int | None = None) -> list[int] | None:
    """On as few machines as possible: those with most free GPUs, and the rest where it leaves the fewest idle.

    Ties go to the smaller number. None: these are more than ``most`` machines. There must be enough in all.
    """
    rest, found, used = gpus, list[int](), 0
    tightest = _tightest(rest, free)
    if tightest is None:
        largest = [(-has, machine) for machine, has in enumerate(free) if has]
        heapq.heapify(largest)
        left = list(free)
        while tightest is None:
            has, machine = heapq.heappop(largest)
            found += [machine] * -has
            rest, left[machine], used = rest + has, 0, used + 1
            if most is not None and used >= most:
                return None
            if not largest or -largest[0][0] >= rest:
                tightest = _tightest(rest, left)
    return found + [tightest] * rest


def _tightest(gpus: int, free: Sequence[int]) -> int | None:
    """The machine with fewest free GPUs that has so many."""
    if gpus in free:
        return free.index(gpus)
    roomy = [has for has in free if has > gpus]
    return free.index(min(roomy)) if roomy else None
