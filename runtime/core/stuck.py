"""Detection of a stuck job: its strategy waits for nothing and gives no commands (pure).

A strategy may wait for events that it requested or was promised: the end of a Compute or a Score, a timer, a worker
that restarts or waits for a place, the servers' return, an evaluation that it has not received yet. Nothing comes of a
gradient that a worker holds until it is sent or dropped. Events that come by themselves do not count: another
evaluation of the same parameters, telemetry, servers' reports, a checkpoint; nor does a measured norm, which may be
lost with a server, or the answer to a reservation, which comes at once. Nor does a fault or a new quote of the
scheduler; but on a heap of events these are known, and the verdict waits for them
(``runtime/virtual/control/session.py``); with real processes it waits for ``stuck_after_s``. A job whose time is up in
such a state was stuck, too.
"""

from __future__ import annotations

import msgspec

from runtime.core.course import Course
from runtime.core.evaluations import Evaluations
from runtime.core.executor import Executor
from runtime.core.job import RecordSink
from strategies.protocol import Event, Strategy

NAMED = 4
"""Number of workers whose last event the message names; the record has all."""


class Promised(msgspec.Struct):
    """Events promised to a strategy, in addition to those that ledger and membership know."""

    timers: int = 0
    """Tags of timers that have not fired yet."""
    scored: int = -1
    """The version of the last evaluation that it received."""


class Watch:
    """Looks at the parts of a job that know what is still to come."""

    def __init__(
        self,
        strategy: Strategy,
        executor: Executor,
        course: Course,
        record: RecordSink,
        evaluations: Evaluations,
        promised: Promised,
    ) -> None:
        self.strategy, self.executor, self.course, self.record = strategy, executor, course, record
        self.evaluations, self.promised = evaluations, promised

    def awaits(self) -> bool:
        """Whether an event that the strategy requested or was promised is still to come."""
        executor, members, promised = self.executor, self.executor.members, self.promised
        return (
            executor.ledger.progresses
            or self.course.halted
            or bool(promised.timers or executor.scoring.asked or executor.replication.asked or members.awaited)
            or members.anyone_launching()
            or members.anyone_pending()
            or (self.evaluations.under_way and promised.scored != executor.version)
        )

    def declare(self, t: float) -> None:
        """End the job as ``stuck``; the record gets the last events of every worker, the message the last of some."""
        ledger, name = self.executor.ledger, type(self.strategy).__name__
        events = {worker: ledger.last_events(worker) for worker in self.executor.members.members}
        told = {str(worker): msgspec.to_builtins(events[worker]) for worker in events}
        self.record.note(t, "Stuck", strategy=name, workers=told)
        words = [f"worker {worker}: {_last(events[worker])}" for worker in list(events)[:NAMED]]
        more = f" and {len(events) - NAMED} others" if len(events) > NAMED else ""
        self.course.finish(
            t,
            "stuck",
            f"{name} is stuck at {t:.1f} s: it gives no command, and no event that it requested is to come "
            f"(last: {', '.join(words)}{more}; all in the record's note Stuck)",
        )


def _last(events: list[Event]) -> str:
    return f"{type(events[-1]).__name__} at {events[-1].t:.2f} s" if events else "nothing"


class Vigil:
    """Watches a job of real processes, which may be idle for ``after_s`` before it counts as stuck; None: forever."""

    def __init__(self, watch: Watch, after_s: float | None) -> None:
        self.watch, self.after_s = watch, after_s
        self._since_s: float | None = None
        self._work = (0, 0)

    @property
    def period_s(self) -> float | None:
        """Seconds between two checks."""
        return None if self.after_s is None else min(1.0, self.after_s / 4)

    def look(self, t: float) -> None:
        """Declare the job stuck if it has been idle for too long."""
        work = (self.watch.executor.version, self.watch.executor.iterations.total())
        if self.watch.awaits() or work != self._work:
            self._since_s, self._work = None, work
        elif self._since_s is None:
            self._since_s = t
        elif self.after_s is not None and t - self._since_s >= self.after_s and not self.watch.course.status:
            self.watch.declare(t)
