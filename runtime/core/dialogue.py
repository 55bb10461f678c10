"""What is said between a job and its strategy: one event after another, each with its answer in the record (pure).

A command may lead to another event at once (a restarted worker is lost); that waits until the answer at hand has been
carried out. When all has been said, Computes that are held and that nothing could free any more end as empty arrivals.
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


class Dialogue:
    """``carry_out`` gets the commands one by one; ``stopwatch`` measures what a decision costs."""

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
        """What ``Strategy.log_state`` returned last."""
        self._queue: deque[AnyEvent] = deque()

    def tell(self, event: AnyEvent) -> None:
        """Ask the strategy what to do, now or when it has answered what comes before."""
        queue, course = self._queue, self.course
        queue.append(event)
        if len(queue) > 1:
            return
        while queue:
            self._ask(queue[0])
            queue.popleft()
            if not queue and not course.halted and not course.status:
                for grad in self.executor.empty_arrivals():
                    queue.append(Arrived(t=course.t, grad=grad, timings=Timings()))

    def _ask(self, event: AnyEvent) -> None:
        course, stopwatch = self.course, self.stopwatch
        if event.t < course.t:
            event = msgspec.structs.replace(event, t=course.t)
        t = course.t = event.t
        worker = event.grad.worker if isinstance(event, Arrived | Scored) else getattr(event, "worker", None)
        if worker is not None:
            self.executor.ledger.note_event(worker, event)
        begun = stopwatch()
        try:
            commands = checked(self.strategy, event, self.strategy.handle(event))
        except Exception:  # what it fell over must be in the record; its state is not to be trusted
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
