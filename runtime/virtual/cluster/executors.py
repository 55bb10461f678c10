"""How the jobs of a cluster train: as jobs of a lab, which start, leave and end as the cluster decides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol, final

from runtime.api import Outcome
from runtime.core.cluster.brain.grants import Task
from runtime.core.cluster.desk import Allot, JobDesk, Report
from runtime.core.cluster.inputs import JobEnded, JobGone, JobStarted, TaskMoved
from runtime.core.cluster.places import hosts_of
from runtime.core.inputs import TimerFired
from runtime.virtual.clock import TIMER, Clock
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.lab import VirtualLab
from runtime.virtual.machines.tenancy import Tenancy
from strategies.protocol import JobState, NodeId, Places


class DetailedJob(Protocol):
    """One job that trains on the virtual clock, and writes its own record."""

    def begin(self, places: Places, clock: Clock, tenancy: Tenancy | None) -> VirtualSession:
        """Open its record; the session begins at once."""

    def end(self, outcome: Outcome) -> None:
        """Close its record, and release its resources."""

    def crashed(self, error: Exception) -> str:
        """Note an unexpected error, for which it fails; returns one line about it."""


@final
class InDetail:
    """Jobs of a lab: they slow each other down, as their tasks share processors and links.

    Carries out orders as :class:`runtime.core.cluster.port.ClusterPort` says.

    Args:
        models: names of what they train, by job.
        clock: the cluster's, whose time is ``now``.
        leaving: called with a job whose tasks are about to leave.
        elsewhere: called with a job and a task that it restarts; returns the number of its next host (None: the same).
        allot: called with a job, a node and the cores that it is to have; returns why not.
        asking: the jobs whose strategies ask for nodes and cores.
        restart_s: seconds until a job that was preempted computes again once it has GPUs.
        grace_s: seconds that a job has to finish an update when it is preempted.
    """

    def __init__(
        self,
        lab: VirtualLab,
        jobs: Mapping[str, DetailedJob],
        models: Mapping[str, str],
        report: Report,
        clock: Clock,
        now: Callable[[], float],
        leaving: Callable[[str], None],
        elsewhere: Callable[[str, NodeId], int | None],
        allot: Allot,
        asking: Collection[str],
        *,
        restart_s: float,
        grace_s: float,
    ) -> None:
        self._models, self._clock = models, clock
        self._lab, self._jobs, self._report, self._now, self._leaving = lab, jobs, report, now, leaving
        self._elsewhere, self._allot, self._asking = elsewhere, allot, asking
        self._restart_s, self._grace_s = restart_s, grace_s
        self._places: dict[str, Places] = {}
        """Of jobs that hold GPUs and do not compute yet."""
        self._begun: set[str] = set()

    def start(self, job: JobState, places: Places) -> None:
        """Resume a job that has begun before; one that was preempted before it began has nothing to restart."""
        name = job.request.job
        self._places[name] = places
        delay_s = self._restart_s if name in self._begun else 0.0
        if delay_s > 0:
            self._clock.at(self._clock.now + delay_s, TIMER, self._begin, name, places)
        else:
            self._begin(name, places)

    def _begin(self, name: str, places: Places) -> None:
        if self._places.get(name) is not places:  # it was preempted meanwhile
            return
        del self._places[name]
        if name in self._begun:
            if not self._lab.resume(name, hosts_of(places)):
                return  # it has ended while it was away, which is about to be reported
        else:
            self._begun.add(name)
            one, ended = self._jobs[name], partial(self._on_ended, name)
            begin = partial(self._make, name, places)
            self._lab.add(name, begin, self._now(), ended, crashed=one.crashed, model=self._models[name])
        self._report(JobStarted(name))

    def _make(self, name: str, places: Places, clock: Clock, tenancy: Tenancy | None) -> VirtualSession:
        session = self._jobs[name].begin(places, clock, tenancy)
        session.elsewhere = partial(self._next_host, name)
        if name in self._asking:
            self._connect(name, session)
        return session

    def _connect(self, name: str, session: VirtualSession) -> None:
        """A job that asks for nodes; one of its tasks that it restarts stays where it is."""
        session.elsewhere = lambda task: None
        desk = JobDesk(name, self._report, self._allot, self._leaving, session.clock.catch_up)
        session.nodes.requests.desk = desk
        session.places.leaving = desk.leaving

    # ---- nodes of jobs that run --------------------------------------------------------------------------------------

    def grant(self, task: Task, machine: int) -> None:
        def act(session: VirtualSession) -> None:
            session.drive(lambda t: session.nodes.granted(t, task.node, machine))

        self._lab.reach(task.job, act)

    def refuse(self, task: Task, reason: str) -> None:
        def act(session: VirtualSession) -> None:
            session.drive(lambda t: session.nodes.refused(t, task.node, reason))

        self._lab.reach(task.job, act)

    def take_back(self, task: Task) -> None:
        self._lab.reach(task.job, lambda session: session.tell(TimerFired(f"runtime:evict:{task.node}")))

    # ---- from start to end -------------------------------------------------------------------------------------------

    def _next_host(self, name: str, task: str) -> int | None:
        """A task that the job restarts moves as the cluster says."""
        node = NodeId.parse(task)
        self._leaving(name)
        if (host := self._elsewhere(name, node)) is not None:
            self._report(TaskMoved(name, node))
        return host

    def preempt(self, job: JobState) -> None:
        name = job.request.job
        if self._places.pop(name, None) is not None:
            self._report(JobGone(name))
        else:
            self._lab.preempt(name, self._grace_s, partial(self._on_left, job))

    def _on_left(self, job: JobState) -> None:
        """The time until its last update counts as well; ``job``: as it was ordered to leave."""
        self._leaving(job.request.job)
        self._report(JobGone(job.request.job, job.attained_at(self._now())))

    def _on_ended(self, name: str, outcome: Outcome) -> None:
        self._places.pop(name, None)
        self._leaving(name)
        self._jobs[name].end(outcome)
        self._report(JobEnded(name, outcome.status))
