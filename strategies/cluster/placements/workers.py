"""Where the workers of a gang go, by the free GPUs of the machines (pure)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def in_order(gpus: int, free: Sequence[int]) -> list[int]:
    """The first machine that holds all of them; if none does, one machine after another, each as many as it has free.

    There must be enough in all. Returns a machine for every worker.
    """
    for machine, has in enumerate(free):
        if has >= gpus:
            return [machine] * gpus
    found: list[int] = []
    for machine, has in enumerate(free):
        found += [machine] * min(has, gpus - len(found))
    return found


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


def on_most_free(gpus: int, free: Sequence[int]) -> list[int]:
    """One by one, each where most GPUs are free by then, the smaller number of equals. There must be enough in all."""
    order = [(-has, machine) for machine, has in enumerate(free) if has]
    heapq.heapify(order)
    found = []
    for _ in range(gpus):
        has, machine = order[0]
        found.append(machine)
        if has < -1:
            heapq.heapreplace(order, (has + 1, machine))
        else:
            heapq.heappop(order)
    return found
