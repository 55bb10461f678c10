"""Carries out what the Brain decides about nodes of live jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import final

from runtime.core.cluster.brain.grants import Task
from runtime.core.cluster.desk import Allot, JobDesk, Report
from runtime.core.inputs import TimerFired
from runtime.live.control.job import LiveJob


@final
class Granting:
    """The jobs that ask for nodes; for the orders see :class:`runtime.core.cluster.brain.executor.NodePort`.

    An order is carried out after what is going on now, which may be a decision of another job, and in the job's own
    loop: an error there is the job's.

    Args:
        report: tells the automaton of the cluster what has happened.
        allot: asks it for cores.
    """

    def __init__(self, report: Report, allot: Allot) -> None:
        self._report, self._allot = report, allot
        self._jobs: dict[str, LiveJob] = {}

    def connect(self, name: str, job: LiveJob) -> None:
        """A job that asks for nodes begins; one of its tasks that it restarts stays where it is."""
        self._jobs[name] = job
        job.nodes.elsewhere = lambda task: None
        job.nodes.requests.desk = JobDesk(name, self._report, self._allot)

    def ended(self, name: str) -> None:
        """Nothing of a job remains."""
        self._jobs.pop(name, None)

    # ---- for the Brain -----------------------------------------------------------------------------------------------

    def grant(self, task: Task, machine: int) -> None:
        self._reach(task.job, lambda job: job.nodes.granted(task.node, machine))

    def refuse(self, task: Task, reason: str) -> None:
        self._reach(task.job, lambda job: job.nodes.refused(task.node, reason))

    def take_back(self, task: Task) -> None:
        self._reach(task.job, lambda job: job.session.receive(TimerFired(f"runtime:evict:{task.node}")))

    def _reach(self, name: str, act: Callable[[LiveJob], None]) -> None:
        if (job := self._jobs.get(name)) is not None:
            job.loop.after(0.0, partial(_unless_over, job, act))


def _unless_over(job: LiveJob, act: Callable[[LiveJob], None]) -> None:
    if not job.over:
        act(job)
