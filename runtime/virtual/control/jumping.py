"""Jumps of a lab: which jobs have to be measured again after a change, and what a jump does to each of them.

When and how far the lab jumps is decided in :mod:`runtime.core.jumping.jumps`, what is booked in
:mod:`runtime.core.jumping.skipping`.

Two clocks of every job make that simple. What is in progress (work, messages, sleeps, reports on their way) is on the
clock of its tasks, which jumps take along: it is as far from its end afterwards as before. All else is on the job's
clock and happens when it is due: its start, windows of its plan, evaluations with metrics, timers of its strategy, its
time limit. So no jump ever passes any of these. Checkpoints, which nothing here can bring back, move along.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import final

from runtime.config.rules import check_combinations
from runtime.core.inputs import GradientArrived
from runtime.core.job import ApplyOrder
from runtime.core.jumping.jumps import Measured, Outlook, span_s
from runtime.core.jumping.pace import Pace
from runtime.core.jumping.skipping import Skipped, Skipping, slots_of
from runtime.virtual.clock import Clock, Timeline
from runtime.virtual.control.refusals import JUMPS, Jumping
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.tasks.model_state import NoLearner


@final
class JobJumps:
    """What one job has to do with jumps; ``changed`` is called when it has, ``settled`` when it is measured."""

    def __init__(
        self,
        session: VirtualSession,
        measured: Measured,
        *,
        changed: Callable[[VirtualSession], None],
        settled: Callable[[], None],
    ) -> None:
        self.session, self.executor = session, session.coordinator.executor
        hint = session.spec.strategy.staleness_hint()
        bound = None if hint is None else hint.bound
        self._blocks = bound is not None and bound > 0
        times = 1 if bound == 0 else measured.apart
        self.pace = Pace(times * measured.warm_up, times * measured.rounds, together=bound is not None)
        self._changed, self._settled, self._reach = changed, settled, measured.reach
        self._skipped_s = 0.0
        """Since the last change."""
        self._lr_scale = 1.0
        self._members: set[int] = set()
        """Who is measured; empty before anybody is there."""

    # ---- measuring ---------------------------------------------------------------------------------------------------

    def measure(self) -> None:
        """Forget what was measured, and measure the present members from now on: something has changed."""
        self._members = set(self.executor.members.here())
        self.pace.reset(self._members, self.session.clock.now)
        self._skipped_s = 0.0

    def changed(self) -> None:
        """Something of this job has changed, as a window of its plan."""
        self._changed(self.session)

    def arrived(self, given: GradientArrived) -> None:
        """A gradient of it has arrived, of which its coordinator does not know yet."""
        ledger, pace = self.executor.ledger, self.pace
        if ledger.held:
            pace.waits(ledger.held)
        order = ledger.busy.get(given.worker)
        if order is None or order.grad_id != given.grad_id:
            return
        settled = pace.settled
        if pace.arrived(order.worker, self.session.work.now, order.samples, order.assigned_samples):
            self.changed()
        elif not settled and pace.settled:
            self._settled()

    def applied(self, order: ApplyOrder) -> None:
        """An update of it is ordered."""
        self.pace.applied(len(order.grads))
        self._lr_scale = order.lr / rate if (rate := self._lr(self.executor.shards.samples_passed)) else 1.0

    # ---- jumping -----------------------------------------------------------------------------------------------------

    def outlook(self) -> Outlook:
        """What it lets the lab do now."""
        here = set(self.executor.members.here())
        if not self._members:  # it has begun since
            self._members = here
        elif here != self._members:  # a worker was lost, or is back
            self.changed()
        if not self.pace.settled:
            return Outlook(settled=False)
        periods_s, shards = self.pace.periods_s, self.executor.shards
        round_s = max(periods_s.values())
        slots = slots_of(self.executor, self.pace, blocks=self._blocks)
        job = self.session.coordinator
        if slots is None or self.session.over or job.course.halted or job.preemption.asked:
            return Outlook(settled=False, round_s=round_s)
        left_s, total = math.inf, self.executor.job.total_samples
        if total is not None:
            rate = sum(self.pace.batches[worker] / period_s for worker, period_s in periods_s.items())
            booked = sum(slot.samples for slot in slots if slot.grad_id is not None) + self.pace.owed
            left_s = (total - shards.samples_passed - booked) / rate
        return Outlook(settled=True, round_s=round_s, known_s=self._known_s(round_s), left_s=left_s)

    def jump(self, seconds: float) -> None:
        """Book what the job does in a jump that the lab has just made."""
        session, executor = self.session, self.executor
        session.behind.s = session.work.offset_s - session.clock.offset_s
        slots = slots_of(executor, self.pace, blocks=self._blocks)
        assert slots is not None
        newest = executor.shards.epochs_opened
        skipped = Skipping(executor, self.pace, slots).run(seconds)
        self._updated(skipped)
        self._skipped_s += seconds
        round_s = max(self.pace.periods_s.values())
        if self._known_s(round_s) < round_s:
            self.pace.ask_for_more()
        session.clock.catch_up()
        t = session.coordinator.course.advance(session.clock.now)
        session.record.note(
            t,
            "Jumped",
            seconds=seconds,
            version=executor.version,
            updates=len(skipped.batches),
            samples=skipped.samples,
            iterations={str(worker): count for worker, count in skipped.iterations.items()},
            since_s=self.pace.since_s,
        )
        if executor.shards.epochs_opened > newest:
            session.record.note(t, "EpochStarted", epoch=executor.shards.newest_epoch)

    def _known_s(self, round_s: float) -> float:
        return self._reach * self.pace.known * round_s - self._skipped_s

    def _lr(self, samples_passed: int) -> float:
        job = self.executor.job
        return job.lr * job.lr_at(samples_passed)

    def _updated(self, skipped: Skipped) -> None:
        """The progress model has all updates, one after another."""
        learner = self.session.learner
        if not isinstance(learner, NoLearner) or learner.progress is None:
            return
        for before, samples in skipped.batches:
            if samples:
                learner.progress.update(samples, self._lr(before) * self._lr_scale / learner.progress.model.lr)


@final
class LabJumps:
    """Of a lab with these shared machines.

    A change concerns the jobs on the same machines, those on machines of these, and so on.
    """

    def __init__(self, timeline: Timeline, machines: ModelledMachines, measured: Measured) -> None:
        self.timeline, self.machines, self.measured = timeline, machines, measured
        machines.clock.moves = True
        self._jobs: dict[VirtualSession, JobJumps] = {}
        self._look_s = math.inf
        """Time of the lab from which on a jump may be possible."""
        self._used: dict[str, float] = {}
        self._since_s = 0.0
        """Accounts of the machines at the last change, and when it was by their clock."""

    def clock_of_tasks(self, clock: Clock) -> Clock:
        """A clock for the tasks of a job that starts now, which has this clock."""
        made = new_clock(clock.timeline, clock.offset_s)
        made.moves = True
        return made

    def started(self, session: VirtualSession) -> None:
        """A job is about to start; raises ``ConfigError`` for one that cannot jump."""
        spec = session.spec
        job = Jumping(
            strategy=spec.strategy,
            disturbances=session.schedule.disturbances,
            halts_on_loss=spec.job.halts_on_loss,
            computes=not isinstance(session.learner, NoLearner),
            telemetry=session.telemetry_every_s is not None,
        )
        check_combinations(JUMPS, job)
        jumps = JobJumps(session, self.measured, changed=self.changed, settled=self._wake)
        self._jobs[session] = session.jumps = jumps
        self.changed(session)

    def ended(self, session: VirtualSession) -> None:
        """A job has ended, or was preempted; it is on its machines still."""
        self.changed(session)
        del self._jobs[session]
        session.jumps = None
        self._wake()

    def changed(self, session: VirtualSession) -> None:
        """Measure all jobs again that feel what has changed for one of them."""
        for one in connected(session, self._jobs):
            self._jobs[one].measure()
        self.machines.clock.catch_up()
        self._used, self._since_s = self.machines.accounts(), self.machines.clock.now

    def look(self) -> None:
        """Jump if it is time."""
        now_s = self.timeline.moment[0]
        if now_s < self._look_s or self.timeline.next_s <= now_s:
            return
        outlooks = [job.outlook() for job in self._jobs.values()]
        fixed_s = self.timeline.next_fixed_s
        if (seconds := span_s(now_s, fixed_s, outlooks, self.measured.margin)) > 0:
            self._use(seconds)
            self.timeline.jump(seconds, [self.machines.clock, *(session.work for session in self._jobs)])
            for job in self._jobs.values():
                job.jump(seconds)
        self._look_s = self._again_s(now_s, fixed_s, outlooks, jumped=seconds > 0)

    def _use(self, seconds: float) -> None:
        """Machines are used in a jump as they were since the last change."""
        self.machines.clock.catch_up()
        if (measured_s := self.machines.clock.now - self._since_s) > 0:
            now = self.machines.accounts()
            used = {
                name: (now[name] - before) * seconds / measured_s for name, before in self._used.items() if name in now
            }
            self.machines.skip(used)
            self._used = {name: before + used.get(name, 0.0) for name, before in self._used.items()}

    def _again_s(self, now_s: float, fixed_s: float, outlooks: Collection[Outlook], *, jumped: bool) -> float:
        """When to look again: after the next fixed action, or as soon as what is in progress may be as usual again."""
        if jumped or all(one.settled for one in outlooks):
            return fixed_s
        known_s = [one.round_s for one in outlooks if one.round_s < math.inf]
        return now_s + min(known_s) / 4 if len(known_s) == len(outlooks) else math.inf

    def _wake(self) -> None:
        self._look_s = -math.inf


def connected(session: VirtualSession, sessions: Collection[VirtualSession]) -> list[VirtualSession]:
    """The session and all that share a machine with it, or with one of these, in their order."""
    hosts = {one: one.hosts for one in sessions}
    found, reached, grew = {session}, set(hosts[session]), True
    while grew:
        more = [one for one in sessions if one not in found and hosts[one] & reached]
        grew = bool(more)
        found.update(more)
        reached = reached.union(*(hosts[one] for one in more))
    return [one for one in sessions if one in found]
