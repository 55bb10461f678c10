"""The exchange between a job and its strategy: one event after another, each recorded with its answer (pure).

A command may cause another event at once (a restarted worker is lost); that event waits until the current answer has
been carried out. At the end, starved Computes that nothing could free any more end as empty arrivals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec

from runtime.core.answers import checked
from runtime.core.course import Course
from runtime.core.executor import Executor
from runtime.core.job import RecordSink
from strategies.protocol import AnyCommand, AnyEvent, Arrived, Ready, Scored, Strategy, Timings

ABOUT_GRADIENTS = (Arrived, Ready, Scored)


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
        self._starved = executor.ledger.starved

    def tell(self, event: AnyEvent) -> None:
        """Pass an event to the strategy, now or after it has answered earlier ones."""
        self._queue.append(event)
        if len(self._queue) == 1:
            self._exchange()

    def go_on(self, event: AnyEvent, answer: Callable[[], object]) -> None:
        """Continue after an event that somebody else has noted and passed to the strategy.

        ``answer`` returns what it has answered, or raises what it has raised.
        """
        self._queue.append(event)
        self._answer(event, answer)
        self._queue.popleft()
        self.settle()

    def settle(self) -> None:
        """After an event: end starved Computes that nothing could free any more."""
        self._release()
        self._exchange()

    def _exchange(self) -> None:
        queue = self._queue
        while queue:
            self._ask(queue[0])
            queue.popleft()
            if self._starved:
                self._release()

    def _release(self) -> None:
        queue, course = self._queue, self.course
        if self._starved and not queue and not course.halted and not course.status:
            for grad in self.executor.empty_arrivals():
                queue.append(Arrived(t=course.t, grad=grad, timings=Timings()))

    def _ask(self, event: AnyEvent) -> None:
        course = self.course
        if event.t < course.t:
            event = msgspec.structs.replace(event, t=course.t)
        course.t = event.t
        worker = event.grad.worker if isinstance(event, ABOUT_GRADIENTS) else getattr(event, "worker", None)
        if worker is not None:
            self.executor.ledger.note_event(worker, event)
        self._answer(event, partial(self.strategy.handle, event))

    def _answer(self, event: AnyEvent, answer: Callable[[], object]) -> None:
        course, stopwatch = self.course, self.stopwatch
        begun = stopwatch()
        try:
            commands = checked(self.strategy, event, answer())
        except Exception:  # the event on which it failed must be in the record; its state is unreliable
            self.record.event(course.t, event, (), self.executor.version, (stopwatch() - begun) * 1e6, None)
            self.state = {}
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
