"""A cluster of emulated hosts: jobs arrive by the wall clock, the automaton decides, a lab runs their processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, final

from runtime.api import Outcome
from runtime.core.cluster.arriving import by_submission
from runtime.core.cluster.brain.executor import Elasticity
from runtime.core.cluster.brain.placing import StartCores
from runtime.core.cluster.coordinator import ClusterCoordinator
from runtime.core.cluster.inputs import AnyInput, BrainBack, BrainLost, JobEnded, JobGone, JobStarted, TaskMoved, Woke
from runtime.core.cluster.places import hosts_of
from runtime.core.host_sharing import HostSharing, ReservationClient
from runtime.live.cluster.granting import Granting
from runtime.live.cluster.use import LiveHostUse
from runtime.live.control.job import LiveJob
from runtime.live.control.job_resources import JobResources
from runtime.live.control.lab import LiveLab
from runtime.live.control.tenant import LiveTenant
from runtime.live.hosts.rules import PAYLOAD_FRAC
from runtime.live.transport.loop import Loop
from runtime.record.cluster import ClusterRecorder
from strategies.protocol import HostRoom, JobRequest, JobState, Machine, NodeId, Placement, Places, Policy, Prevention

INTERRUPTED = "interrupted"
VIEW_EVERY_S = 0.25


class JobOfProcesses(Protocol):
    """One job of real processes, which writes its own record."""

    def begin(self, places: Places, resources: JobResources) -> LiveJob:
        """Open its record; the lab starts its agents at once."""

    def end(self, outcome: Outcome) -> None:
        """Close its record, and release its resources."""

    def crashed(self, error: Exception) -> str:
        """Note an unexpected error, for which it fails; returns one line about it."""


@final
class LiveCluster:
    """Runs the jobs of one source; its clock counts seconds since :meth:`run`.

    Args:
        lab: with the machines.
        requests: in the order of submission.
        prevention: decides what jobs reserve of each other's hosts; None: none of them does.
        jobs: by name.
        grace_s: seconds that a job has to finish an update when it is preempted.
        tick: called a few times per second with the cluster's time, for the view.
        start_cores: of the jobs whose strategies ask for nodes.
        node_wait_s: seconds for which a node may wait.
        brain_away_s: when the Brain dies and when a new one is there; None: it lives.
    """

    def __init__(
        self,
        lab: LiveLab,
        machines: Sequence[Machine],
        requests: Sequence[JobRequest],
        policy: Policy,
        placement: Placement,
        record: ClusterRecorder,
        *,
        prevention: Prevention | None = None,
        jobs: Mapping[str, JobOfProcesses],
        use_every_s: float,
        grace_s: float = 0.0,
        tick: Callable[[float], None] = lambda t: None,
        start_cores: Mapping[str, StartCores] | None = None,
        node_wait_s: float = math.inf,
        brain_away_s: tuple[float, float] | None = None,
    ) -> None:
        self.lab, self.record, self._jobs, self._tick, self._every_s = lab, record, jobs, tick, use_every_s
        self._grace_s = grace_s
        self.clock = Loop(lab.loop)
        self._use = LiveHostUse(lab.machines, len(machines))
        self._models = {request.job: request.model for request in requests}
        self._sharing: HostSharing | None = None
        if prevention is not None:
            rooms = [_room_of(machine) for machine in machines]
            self._sharing = HostSharing(rooms, prevention, lambda: self.now, self.clock.after, self._note)
        self._asking = start_cores or {}
        self._granting = Granting(
            self._report,
            lambda job, node, cores, reserve: self._coordinator.allot(self.now, job, node, cores, reserve),
        )
        elasticity = None
        if self._asking:
            elasticity = Elasticity(start=self._asking, port=self._granting, wait_s=node_wait_s)
        self._coordinator = ClusterCoordinator(machines, policy, placement, self, record.note, elasticity)
        self._brain_away_s = brain_away_s if self._asking else None
        self._batches = by_submission(requests)
        self._statuses: dict[str, str] = {}
        """Of jobs that have ended after an interrupt."""
        self._early: dict[str, JobState] = {}
        """Jobs that were preempted before they have begun."""
        self._wake = 0
        self._over = False

    def run(self) -> dict[str, Outcome]:
        """Until all jobs are over, or a signal; their outcomes, by the numbers of their submission (``j0``)."""
        self.clock.restart_clock()
        self._await_next()
        self.clock.at(self._every_s, self._sample)
        if self._brain_away_s is not None:
            lost_s, back_s = self._brain_away_s
            self.clock.at(lost_s, partial(self._report, BrainLost()))
            self.clock.at(back_s, partial(self._report, BrainBack()))
        self._look()
        self.lab.submitter = self
        try:
            return self.lab.run()
        finally:
            self._over = True

    @property
    def interrupted_by(self) -> int:
        """The signal that ended it, if one did."""
        return self.lab.interrupted_by

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.clock.now

    # ---- for the lab -------------------------------------------------------------------------------------------------

    @property
    def to_come(self) -> bool:
        return not self._over and bool(self._batches or self._coordinator.jobs)

    def closing(self) -> None:
        """Take the last sample; after an interrupt no job starts any more, and running jobs have been ended."""
        self._over, now = True, self.now
        for job in list(self._coordinator.jobs.values()):
            name = job.request.job
            if job.phase != "waiting":
                self.record.note(now, "Ended", job=name, status=self._statuses.get(name, INTERRUPTED))
        self.record.hosts(self._use.sample(now, self._coordinator.gpus_used))

    # ---- for the automaton -------------------------------------------------------------------------------------------

    def start(self, job: JobState, places: Places) -> None:
        name = job.request.job
        if (begun := self.lab.job(_in_lab(job))) is not None:
            if not begun.over:
                self._share(name, begun)
            begun.resume(hosts_of(places))
        else:
            begin, ended = partial(self._begin, name, places), partial(self._on_ended, name)
            self.lab.add(_in_lab(job), begin, ended=ended, crashed=self._jobs[name].crashed)

    def preempt(self, job: JobState) -> None:
        """One that is about to begin leaves when it has; one that has just ended is reported as that."""
        begun = self.lab.job(_in_lab(job))
        if begun is None:
            self._early[job.request.job] = job
        elif not begun.over:
            begun.preempt(self._grace_s, partial(self._on_left, job))

    def wake(self, at_s: float) -> None:
        self._wake += 1
        if math.isfinite(at_s):
            self.clock.at(at_s, partial(self._woke, self._wake))

    # ---- what happens ------------------------------------------------------------------------------------------------

    def _await_next(self) -> None:
        if self._batches:
            self.clock.at(self._batches[-1][0].request.submit_s, self._submit)

    def _submit(self) -> None:
        if not self.interrupted_by:
            batch = self._batches.pop()
            self._await_next()
            self._report(*batch)

    def _woke(self, number: int) -> None:
        if number == self._wake:
            self._report(Woke())

    def _begin(self, name: str, places: Places, resources: JobResources) -> LiveJob:
        if self._sharing is not None:
            resources = resources._replace(reservations=ReservationClient(self._sharing, name))
        job = self._jobs[name].begin(places, resources)
        self._share(name, job)
        job.begun = partial(self._report, JobStarted(name))
        job.nodes.elsewhere = partial(self._next_host, name, job)
        if name in self._asking:
            self._granting.connect(name, job)
        if (early := self._early.pop(name, None)) is not None:
            job.preempt(self._grace_s, partial(self._on_left, early))
        return job

    def _share(self, name: str, job: LiveJob) -> None:
        """A job is about to use the hosts: from now on it is measured for others that reserve something there."""
        if self._sharing is not None:
            job.session.loads = self._sharing.enter(name, LiveTenant(job), self._models[name])
            job.nodes.rehoused, job.trained = self._sharing.rehoused, partial(self._unshare, name)

    def _unshare(self, name: str) -> None:
        """A job is over, or has left: others have again what it has reserved of their hosts."""
        if self._sharing is not None:
            self._sharing.leave(name, returns=True)

    def _next_host(self, name: str, job: LiveJob, task: str) -> int | None:
        """A task that the job restarts moves as the cluster says; its GPU is free when its process has ended."""
        node = NodeId.parse(task)
        host = self._coordinator.relocate(self.now, name, node)
        if host is not None:
            job.once_ended(node, partial(self._report, TaskMoved(name, node)))
        return host

    def _on_left(self, job: JobState) -> None:
        """The time until its last process has ended counts as well; ``job``: as it was ordered to leave."""
        self._unshare(job.request.job)
        self._report(JobGone(job.request.job, job.attained_at(self.now)))

    def _on_ended(self, name: str, outcome: Outcome) -> None:
        self._unshare(name)
        self._granting.ended(name)
        self._jobs[name].end(outcome)
        self._statuses[name] = outcome.status
        self._report(JobEnded(name, outcome.status))

    def _note(self, kind: str, /, **fields: object) -> None:
        """Note the jobs' reservations, at the cluster's time."""
        self.record.note(self.now, kind, **fields)

    def _report(self, *given: AnyInput) -> None:
        """Tell the automaton, unless all is about to end."""
        if not self.interrupted_by:
            self._coordinator.receive(self.now, *given)

    def _sample(self) -> None:
        self.record.hosts(self._use.sample(self.now, self._coordinator.gpus_used))
        self.clock.after(self._every_s, self._sample)

    def _look(self) -> None:
        self._tick(self.now)
        self.clock.after(VIEW_EVERY_S, self._look)


def _room_of(machine: Machine) -> HostRoom:
    """The room of a host for its tasks together."""
    rate = None if machine.link_bytes_per_s is None else machine.link_bytes_per_s * PAYLOAD_FRAC
    return HostRoom(host=str(NodeId("host", machine.number)), cpu_cores=machine.cpu_cores, link_bytes_per_s=rate)


def _in_lab(job: JobState) -> str:
    """The name of a job in its lab."""
    return f"j{job.number}"
