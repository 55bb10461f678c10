"""The virtual clock: a heap of what is to happen, keyed by (time, priority, sequence)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

PLAN, MACHINE, NETWORK, MESSAGE, TIMER = range(-1, 4)
"""At equal times the plan's windows open and close first, then machines act, then links and processors are shared anew,
then the coordinator hears of it, then timers fire."""


class Clock:
    """``now`` is seconds since the job's start.

    What is scheduled for the same time and priority happens in the order of scheduling: a tie that were broken by an id
    would make one worker always the first.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    def at(self, when_s: float, priority: int, action: Callable[..., None], *args: Any) -> None:
        """Call ``action(*args)`` at ``when_s``, or now if that has passed."""
        self._sequence += 1
        heapq.heappush(self._heap, (max(when_s, self.now), priority, self._sequence, action, args))

    @property
    def next_s(self) -> float:
        """When the next action is due; infinity when there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def step(self) -> None:
        """Move on to the next action and carry it out; raises ``IndexError`` when there is none."""
        self.now, _, _, action, args = heapq.heappop(self._heap)
        action(*args)
