"""The virtual clock: a heap of actions, keyed by (time, priority, sequence).

Jobs of one lab share the heap, and each has a clock of its own, whose seconds count from when the job starts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from typing import Any

START, PLAN, MACHINE, NETWORK, MESSAGE, TIMER = range(-2, 4)
"""At equal times a job starts first and the plan's windows open and close, then machines act, then links and processors
are shared again, then the coordinator is notified, then timers fire."""
Entry = tuple[float, int, int, Callable[..., None], tuple[Any, ...]]
"""Time, priority, number among all entries ever scheduled, action, its arguments."""
Moment = tuple[float, float]
"""A lab's time as the exact sum of two floats, the first of which is its rounded value."""


class Timeline:
    """The scheduled actions of all jobs of a lab.

    A job's time plus its offset is kept exactly, so the order of a job's events, and what it computes from its own
    times, are the same to the last bit whenever it starts.
    """

    def __init__(self) -> None:
        self.moment: Moment = (0.0, 0.0)
        """Time of the current action."""
        self.clock: Clock | None = None
        """Clock of the current action's job."""
        self._heap: list[tuple[float, float, int, int, Clock, float, Callable[..., None], tuple[Any, ...]]] = []
        self.sequence = 0
        """Actions that were ever scheduled."""

    def add(
        self, clock: Clock, when_s: float, priority: int, action: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        """Call ``action(*args)`` at ``when_s`` of ``clock``, but not before the current action.

        To a job that caught up with an action of another clock ``now`` is rounded, and may lie an instant before it.
        """
        self.sequence += 1
        moment = exact_sum(clock.offset_s, when_s) if clock.offset_s else (when_s, 0.0)
        if moment < self.moment:
            moment = self.moment
        heapq.heappush(self._heap, (*moment, priority, self.sequence, clock, when_s, action, args))

    def lift(self) -> list[Entry]:
        """Take out all scheduled actions, of a timeline with one clock left, which starts at 0."""
        heap, self._heap = self._heap, []
        return [
            (when_s, priority, number, action, args)
            for _, _, priority, number, clock, when_s, action, args in heap
            if not clock.ended
        ]

    def lay(self, clock: Clock, entries: Iterable[Entry]) -> None:
        """Schedule actions as they were before :meth:`lift`."""
        for when_s, priority, number, action, args in entries:
            heapq.heappush(self._heap, (when_s, 0.0, priority, number, clock, when_s, action, args))

    def peek(self) -> Entry | None:
        """The next action; None: there is none."""
        self._skip_ended()
        if not self._heap:
            return None
        _, _, priority, number, _, when_s, action, args = self._heap[0]
        return when_s, priority, number, action, args

    @property
    def next_s(self) -> float:
        """Time of the next action, in the lab's time; infinity if there is none."""
        self._skip_ended()
        return self._heap[0][0] if self._heap else math.inf

    def step(self) -> None:
        """Advance to the next action and carry it out; raises ``IndexError`` if there is none."""
        self._skip_ended()
        lab_s, rest_s, _, _, clock, when_s, action, args = heapq.heappop(self._heap)
        self.moment, self.clock = (lab_s, rest_s), clock
        clock.now = when_s
        action(*args)

    advance = step
    """A compiled timeline carries out several actions here, as long as none of them is Python."""

    def drop_ended(self) -> None:
        """Forget what jobs that are over had scheduled, and so the jobs."""
        self._heap = [entry for entry in self._heap if not entry[4].ended]
        heapq.heapify(self._heap)

    def _skip_ended(self) -> None:
        while self._heap and self._heap[0][4].ended:
            heapq.heappop(self._heap)


class Clock:
    """``now`` is seconds since the job's start, which is at ``offset_s`` of its lab's time.

    Actions of equal time and priority run in the order of scheduling: breaking ties by an id would always favour one
    worker.
    """

    def __init__(self, timeline: Timeline | None = None, offset_s: float = 0.0) -> None:
        self.timeline = timeline or Timeline()
        self.offset_s = offset_s
        self.now = 0.0
        self.ended = False
        """Whether the job is over, so that its scheduled actions are dropped."""

    def at(self, when_s: float, priority: int, action: Callable[..., None], *args: Any) -> None:
        """Call ``action(*args)`` at ``when_s``, or now if that has passed."""
        self.timeline.add(self, max(when_s, self.now), priority, action, args)

    @property
    def next_s(self) -> float:
        """Time of the next action of a clock that is alone on its timeline; infinity if there is none."""
        return self.timeline.next_s

    def step(self) -> None:
        """Carry out the next action, see :meth:`Timeline.step`."""
        self.timeline.step()

    def catch_up(self) -> None:
        """Advance to the lab's time: another clock's action affects this job."""
        self.timeline.clock = self
        self.now = max(self.now, math.fsum((*self.timeline.moment, -self.offset_s)))  # rounded once


def exact_sum(a: float, b: float) -> Moment:
    """The rounded sum and what rounding took away (Knuth's TwoSum); infinite sums have no rest."""
    total = a + b
    if math.isinf(total):
        return total, 0.0
    second = total - a
    return total, (a - (total - second)) + (b - second)
