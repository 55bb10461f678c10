"""The exchange between a job and its strategy: one event after another, each recorded with its answer (pure).

A command may cause another event at once (a restarted worker is lost); that event waits until the current answer has
been carried out. At the end, held Computes that nothing could free any more end as empty arrivals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from runtime.core.answers import checked
from runtime.core.course import Course
from runtime.core.executor import Executor
from runtime.core.job import RecordSink
from strategies.protocol import AnyCommand, AnyEvent, Arrived, Scored, Strategy, Timings

ABOUT_GRADIENTS = (Arrived, Scored)


class Dialogue:
    """``carry_out`` gets the commands one by one; ``stopwatch`` measures the time of a decision."""

    def __init__(
        self,
        strategy: Strategy,
        executor: Executor,
        course: Course,
        record: RecordSink,
        stopwatch: Callable[[], float],
        carry_out: Callable[[AnyCommand], None],
    ) -> None:
        self.strategy, self.executor, self.course, self.record = strategy, executor, course, record
        self.stopwatch, self.carry_out = stopwatch, carry_out
        self.state: dict[str, float | int | str] = {}
        """The last result of ``Strategy.log_state``."""
        self._queue: deque[AnyEvent] = deque()

    def tell(self, event: AnyEvent) -> None:
        """Pass an event to the strategy, now or after it has answered earlier ones."""
        queue, course, held = self._queue, self.course, self.executor.ledger.held
        queue.append(event)
        if len(queue) > 1:
            return
        while queue:
            self._ask(queue[0])
            queue.popleft()
            if held and not queue and not course.halted and not course.status:
                for grad in self.executor.empty_arrivals():
                    queue.append(Arrived(t=course.t, grad=grad, timings=Timings()))

    def _ask(self, event: AnyEvent) -> None:
        course, stopwatch = self.course, self.stopwatch
        if event.t < course.t:
            event = msgspec.structs.replace(event, t=course.t)
        t = course.t = event.t
        worker = event.grad.worker if isinstance(event, ABOUT_GRADIENTS) else getattr(event, "worker", None)
        if worker is not None:
            self.executor.ledger.note_event(worker, event)
        begun = stopwatch()
        try:
            commands = checked(self.strategy, event, self.strategy.handle(event))
        except Exception:  # the event on which it failed must be in the record; its state is unreliable
            self.record.event(t, event, (), self.executor.version, (stopwatch() - begun) * 1e6, None)
            raise
        decide_us = (stopwatch() - begun) * 1e6
        try:
            for command in commands:
                if course.status is None and not course.halted:
                    self.carry_out(command)
        finally:
            state = self.strategy.log_state()
            changed = state if state != self.state else None
            self.state = state
            self.record.event(course.t, event, commands, self.executor.version, decide_us, changed)
