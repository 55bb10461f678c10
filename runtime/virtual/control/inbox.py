"""The coordinator of a virtual job does one thing at a time: its waiting calls, and when it is free again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from runtime.virtual.clock import MESSAGE, Clock

if TYPE_CHECKING:
    from runtime.virtual.control.session import VirtualSession

Waiting = tuple[Callable[..., None], tuple[Any, ...]]
"""A call that the coordinator makes when it is free: a function of the time and of these arguments."""


class Stopwatch:
    """Measures decisions that are charged; where they are not, there is none, so that records are reproducible."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._begun_s: float | None = None

    def __call__(self) -> float:
        """The current reading; the coordinator takes one before and after every decision."""
        now = time.perf_counter()
        if self._begun_s is None:
            self._begun_s = now
        else:
            self.spent_s += now - self._begun_s
            self._begun_s = None
        return now

    def take_s(self) -> float:
        """Seconds measured since the last call."""
        spent, self.spent_s, self._begun_s = self.spent_s, 0.0, None
        return spent


@final
class Inbox:
    """A decision takes ``decision_s``, and what the ``stopwatch`` measures, if there is one."""

    def __init__(self, clock: Clock, owner: VirtualSession, decision_s: float, stopwatch: Stopwatch | None) -> None:
        self.clock, self.owner, self.decision_s, self.stopwatch = clock, owner, decision_s, stopwatch
        self.busy_until_s = 0.0
        self.waiting: deque[Waiting] = deque()
        self.serving = False
        """Whether the next waiting input has its time."""

    def drive(self, call: Callable[..., None], *args: Any) -> None:
        """Let the coordinator react to something now, or when it is free; its orders leave when it has decided.

        ``call(t, *args)`` gets the time of that.
        """
        if not self.waiting and self.clock.now >= self.busy_until_s:
            self.decide(call, *args)
            return
        self.waiting.append((call, args))
        if not self.serving:
            self.serving = True
            self.clock.at(self.busy_until_s, MESSAGE, self.serve)

    def serve(self) -> None:
        """Process the next waiting input, in order."""
        call, args = self.waiting.popleft()
        self.decide(call, *args)
        self.serve_on()

    def serve_on(self) -> None:
        """After a waiting input: process the next when the coordinator is free."""
        self.serving = bool(self.waiting)
        if self.serving:
            self.clock.at(self.busy_until_s, MESSAGE, self.serve)

    def decide(self, call: Callable[..., None], *args: Any) -> None:
        """Let it react now, before all waiting calls: somebody else has begun this decision, or it is the next."""
        now = self.clock.now
        if not self.owner.react(call, now, args):
            return
        busy_until_s = now + self.decision_s
        if self.stopwatch is not None:
            busy_until_s += self.stopwatch.take_s()
        self.busy_until_s = busy_until_s
        self.owner.decided(now, busy_until_s)
