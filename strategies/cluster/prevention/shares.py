"""What every task holds of its host: what it was measured to use, cut to what the host has (pure).

Workers that wait use less than their shares, so these may sum to more than their host has. What each holds then is what
it would get if nobody waited: max-min fair, as processors and links divide themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

Task = tuple[str, str]
"""(job, node)."""
NOTHING = 1e-12
"""Part of a host's capacity that is rounding."""


def fair_shares(capacity: float, wanted: Mapping[Task, float]) -> dict[Task, float]:
    """Max-min fair: nobody more than wanted, and who gets less has at least as much as everybody else."""
    left, given = max(0.0, capacity), dict[Task, float]()
    waiting = sorted(wanted, key=lambda task: (wanted[task], task))
    while waiting:
        task = waiting.pop(0)
        given[task] = min(wanted[task], left / (len(waiting) + 1))
        left -= given[task]
    return given


def held_shares(capacity: float, wanted: Mapping[Task, float], fixed: Mapping[Task, float]) -> dict[Task, float]:
    """Shares of a host's tasks, which sum to ``capacity`` at most; ``fixed`` ones were granted or left by a policy."""
    return fair_shares(capacity - math.fsum(fixed.values()), wanted) | dict(fixed)


def free_of(capacity: float, held: Mapping[Task, float]) -> float:
    """What nobody holds; rounding is nothing."""
    free = capacity - math.fsum(held.values())
    return free if free > NOTHING * capacity else 0.0
