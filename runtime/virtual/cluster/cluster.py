"""A cluster on the virtual clock: jobs arrive, the automaton decides, and they train on the lab's machines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import final

from runtime.api import Outcome
from runtime.core.cluster.arriving import by_submission
from runtime.core.cluster.brain.executor import Elasticity
from runtime.core.cluster.brain.placing import StartCores
from runtime.core.cluster.coordinator import ClusterCoordinator
from runtime.core.cluster.inputs import AnyInput, BrainBack, BrainLost, Woke
from runtime.record.cluster import ClusterRecorder
from runtime.virtual.clock import TIMER
from runtime.virtual.cluster.executors import DetailedJob, InDetail
from runtime.virtual.cluster.use import HostUse
from runtime.virtual.lab import VirtualLab
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.sites import Site
from strategies.protocol import JobRequest, JobState, Machine, Placement, Places, Policy, Prevention

INTERRUPTED = "interrupted"


@final
class VirtualCluster:
    """Runs the jobs of one source; its clock is the lab's own time.

    Everything here happens in actions of that clock, so that times are whole floats; events of a job in between are
    reported at the next such moment.

    Args:
        sites: of every machine, in the order of their numbers.
        requests: in the order of submission.
        prevention: decides what jobs reserve of each other's hosts; None: none of them does.
        jobs: all of them, by name.
        restart_s: seconds until a job that was preempted computes again once it has GPUs.
        grace_s: seconds that a job has to finish an update when it is preempted.
        tick: called a few times per second with the cluster's time, for the view.
        start_cores: of the jobs whose strategies ask for nodes.
        node_wait_s: seconds for which a node may wait.
        brain_away_s: when the Brain dies and when a new one is there; None: it lives.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        machines: Sequence[Machine],
        requests: Sequence[JobRequest],
        policy: Policy,
        placement: Placement,
        record: ClusterRecorder,
        *,
        prevention: Prevention | None = None,
        jobs: Mapping[str, DetailedJob],
        use_every_s: float,
        restart_s: float = 0.0,
        grace_s: float = 0.0,
        tick: Callable[[float], None] = lambda t: None,
        start_cores: Mapping[str, StartCores] | None = None,
        node_wait_s: float = math.inf,
        brain_away_s: tuple[float, float] | None = None,
    ) -> None:
        self.record, self._tick, self._every_s = record, tick, use_every_s
        self.lab = VirtualLab(sites, self, prevention, self._note)
        self.clock = new_clock(self.lab.timeline)
        assert self.lab.machines is not None
        self._use = HostUse(self.lab.machines, [site.name for site in sites])
        start_cores = start_cores or {}
        self._executor = InDetail(
            self.lab,
            jobs,
            {request.job: request.model for request in requests},
            self._report,
            self.clock,
            lambda: self.now,
            self._use.leaving,
            lambda job, node: self._coordinator.relocate(self.now, job, node),
            lambda job, node, cores, reserve: self._coordinator.allot(self.now, job, node, cores, reserve),
            start_cores,
            restart_s=restart_s,
            grace_s=grace_s,
        )
        elasticity = None
        if start_cores:
            elasticity = Elasticity(start=start_cores, port=self._executor, wait_s=node_wait_s)
        self._coordinator = ClusterCoordinator(machines, policy, placement, self, record.note, elasticity)
        self._brain_away_s = brain_away_s if start_cores else None
        self._batches = by_submission(requests)
        self._reports: list[AnyInput] = []
        self._wake = 0
        self._over = False

    def run(self) -> dict[str, Outcome]:
        """Until all jobs are over, or a signal; the outcomes of those that have begun, by name."""
        self._await_next()
        self.clock.at(self._every_s, TIMER, self._sample)
        if self._brain_away_s is not None:
            for at_s, given in zip(self._brain_away_s, (BrainLost(), BrainBack()), strict=True):
                self.clock.at(at_s, TIMER, self._report, given)
        outcomes = self.lab.run()
        if self._over:
            self._end_all()
        self.record.hosts(self._use.sample(self.now, self._coordinator.gpus_used))
        return outcomes

    @property
    def interrupted_by(self) -> int:
        """The signal that ended it, if one did."""
        return self.lab.interrupted_by

    # ---- for the lab -------------------------------------------------------------------------------------------------

    @property
    def to_come(self) -> bool:
        return not self._over and bool(self._batches or self._reports or self._coordinator.jobs)

    def look(self, interrupted_by: int) -> None:
        self._over = self._over or bool(interrupted_by)
        self._tick(self.now)

    # ---- for the automaton -------------------------------------------------------------------------------------------

    def start(self, job: JobState, places: Places) -> None:
        self._executor.start(job, places)

    def preempt(self, job: JobState) -> None:
        self._executor.preempt(job)

    def wake(self, at_s: float) -> None:
        self._wake += 1
        if math.isfinite(at_s):
            self.clock.at(at_s, TIMER, self._woke, self._wake)

    # ---- actions of the cluster's clock ------------------------------------------------------------------------------

    def _await_next(self) -> None:
        if self._batches:
            self.clock.at(self._batches[-1][0].request.submit_s, TIMER, self._submit)

    def _submit(self) -> None:
        batch = self._batches.pop()
        self._await_next()
        self._coordinator.receive(self.clock.now, *batch)

    def _woke(self, number: int) -> None:
        if number == self._wake:
            self._coordinator.receive(self.clock.now, Woke())

    def _sample(self) -> None:
        self.record.hosts(self._use.sample(self.clock.now, self._coordinator.gpus_used))
        self.clock.at(self.clock.now + self._every_s, TIMER, self._sample)

    def _report(self, given: AnyInput) -> None:
        """Tell the automaton: at once from an action of this clock, else at the next moment that is a float."""
        if self.lab.timeline.clock is self.clock and not self._over:
            self._coordinator.receive(self.clock.now, given)
            return
        self._reports.append(given)
        if len(self._reports) == 1:
            self.clock.at(self.now, TIMER, self._deliver)

    def _deliver(self) -> None:
        reports, self._reports = self._reports, []
        self._coordinator.receive(self.clock.now, *reports)

    def _end_all(self) -> None:
        """After an interrupt no job starts any more, and running jobs have been ended."""
        for job in list(self._coordinator.jobs.values()):
            if job.phase != "waiting":
                self.record.note(self.now, "Ended", job=job.request.job, status=INTERRUPTED)

    @property
    def now(self) -> float:
        """The lab's time, rounded up: not before anything that has happened."""
        lab_s, rest_s = self.lab.timeline.moment
        return math.nextafter(lab_s, math.inf) if rest_s > 0 else lab_s

    def _note(self, kind: str, /, **fields: object) -> None:
        """Note the jobs' reservations, at the cluster's time."""
        self.record.note(self.now, kind, **fields)
