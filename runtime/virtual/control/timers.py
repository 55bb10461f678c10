"""When the coordinator is woken: on the job's clock or, for what jumps take along, on that of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import final

from runtime.core import inputs
from runtime.virtual.clock import TIMER, Clock
from runtime.virtual.control.behind import Behind

Tell = Callable[[inputs.AnyInput], None]


@final
class Timers:
    """The timers of one job. Those whose tag is in ``moving`` are in the tasks' time.

    That is on the clock ``work`` and ``behind`` the job's; ``tell_here`` passes inputs from there.
    """

    def __init__(
        self,
        clock: Clock,
        tell: Tell,
        *,
        work: Clock | None = None,
        behind: Behind | None = None,
        tell_here: Tell | None = None,
        moving: Collection[str] = (),
    ) -> None:
        self.clock, self.tell, self.behind = clock, tell, behind or Behind()
        self._work, self._tell_here, self._moving = work or clock, tell_here or tell, moving

    def wake(self, at_s: float, tag: str) -> None:
        """Pass the timer to the coordinator at ``at_s`` of the job's time."""
        if tag in self._moving:
            self._work.at(at_s - self.behind.s, TIMER, self._tell_here, inputs.TimerFired(tag))
        else:
            self.clock.at(at_s, TIMER, self.tell, inputs.TimerFired(tag))
