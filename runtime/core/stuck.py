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

import math
from typing import Protocol

import msgspec

from runtime.core.course import Course
from runtime.core.elastic import Elastic
from runtime.core.evaluations import Evaluations
from runtime.core.executor import Executor
from runtime.core.job import RecordSink
from runtime.core.ledger import GradientLedger
from runtime.core.membership import Membership
from runtime.core.scheduling import Scheduler
from strategies.protocol import Event, Restart, Strategy

NAMED = 4
"""Number of workers whose last event the message names; the record has all."""


class Promised(msgspec.Struct):
    """Events promised to a strategy, in addition to those that ledger and membership know."""

    timers: int = 0
    """Tags of timers that have not fired yet."""
    scored: int = -1
    """The version of the last evaluation that it received."""


class Watched(Protocol):
    """The parts of a :class:`runtime.core.coordinator.Coordinator` that are inspected."""

    strategy: Strategy
    executor: Executor
    ledger: GradientLedger
    members: Membership
    record: RecordSink
    scheduler: Scheduler
    promised: Promised
    course: Course
    evaluations: Evaluations
    elastic: Elastic

    @property
    def version(self) -> int:
        """Number of updates applied."""


def awaits(job: Watched) -> bool:
    """Whether an event that the strategy requested or was promised is still to come."""
    ledger, members = job.ledger, job.members
    if ledger.progresses or job.course.halted or job.promised.timers or job.executor.scoring.asked:
        return True
    if job.executor.replication.asked:
        return True
    return (
        members.anyone_launching()
        or members.anyone_pending()
        or bool(members.awaited)
        or (job.evaluations.under_way and job.promised.scored != job.version)
    )


def expects_quote(job: Watched, t: float) -> bool:
    """Whether the scheduler's expectation will change, for a strategy that restarts nodes."""
    return Restart in job.strategy.needs and math.isfinite(job.scheduler.next_change_s(t))


def declare(job: Watched, t: float) -> None:
    """End the job as ``stuck``; the record gets the last events of every worker, the message the last of some."""
    events = {worker: job.ledger.last_events(worker) for worker in job.members.members}
    told = {str(worker): msgspec.to_builtins(events[worker]) for worker in events}
    job.record.note(t, "Stuck", strategy=type(job.strategy).__name__, workers=told)
    words = [f"worker {worker}: {_last(events[worker])}" for worker in list(events)[:NAMED]]
    more = f" and {len(events) - NAMED} others" if len(events) > NAMED else ""
    job.course.finish(
        t,
        "stuck",
        f"{type(job.strategy).__name__} is stuck at {t:.1f} s: it gives no command, and no event that it requested is "
        f"to come (last: {', '.join(words)}{more}; all in the record's note Stuck)",
    )


def _last(events: list[Event]) -> str:
    return f"{type(events[-1]).__name__} at {events[-1].t:.2f} s" if events else "nothing"


class Vigil:
    """Watches a job of real processes, which may be idle for ``after_s`` before it counts as stuck; None: forever."""

    def __init__(self, job: Watched, after_s: float | None) -> None:
        self.job, self.after_s = job, after_s
        self._since_s: float | None = None
        self._work = (0, 0)

    @property
    def period_s(self) -> float | None:
        """Seconds between two checks."""
        return None if self.after_s is None else min(1.0, self.after_s / 4)

    def look(self, t: float) -> None:
        """Declare the job stuck if it has been idle for too long."""
        work = (self.job.version, self.job.executor.iterations.total())
        if awaits(self.job) or work != self._work:
            self._since_s, self._work = None, work
        elif self._since_s is None:
            self._since_s = t
        elif self.after_s is not None and t - self._since_s >= self.after_s and not self.job.course.status:
            declare(self.job, t)
