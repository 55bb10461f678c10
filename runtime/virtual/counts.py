"""A cluster's jobs as counts of GPUs, without iterations (``detail: gpus_only``): each lasts as its request says.

The same automaton decides as for jobs that train, so the policy determines queues, starts and preemptions; nothing
slows a job down.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from runtime.core.cluster.coordinator import ClusterCoordinator
from runtime.core.cluster.inputs import AnyInput, JobEnded, JobGone, JobStarted, JobSubmitted, Woke
from runtime.core.cluster.port import ClusterNote
from strategies.protocol import JobRequest, JobState, Machine, Placement, Places, Policy

START, END = range(2)
"""Kinds of actions, in the order in which they are reported when they happen at the same moment."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a replay."""

    ended: int
    """Number of jobs that have ended."""
    end_s: float
    """Time of the last report."""
    held_gpu_s: float
    """GPU-seconds for which jobs have held GPUs, restarts included."""
    preemptions: int


class CountsReplay:
    """Replays jobs through a cluster. Events of one moment are reported together and decided once.

    Memory depends on the number of jobs that are in the cluster at a time, not on their number in all.

    Args:
        requests: in the order of submission, each with its ``duration_s``; read one by one.
        machines: of the cluster, numbered from 0.
        policy: a fresh one.
        placement: where gangs go.
        note: writes the record of the cluster, see :mod:`runtime.core.cluster.coordinator`.
        restart_s: seconds for which a job that was preempted holds its GPUs before it continues.
    """

    def __init__(
        self,
        requests: Iterable[JobRequest],
        machines: Sequence[Machine],
        policy: Policy,
        placement: Placement,
        note: ClusterNote,
        restart_s: float = 0.0,
    ) -> None:
        if not 0 <= restart_s < math.inf:
            raise ValueError(f"restart_s={restart_s}: must be a finite number of seconds, 0 or more")
        self.restart_s = restart_s
        self.now = 0.0
        self.coordinator = ClusterCoordinator(machines, policy, placement, self, note)
        self._requests: Iterator[JobRequest] = iter(requests)
        self._next = next(self._requests, None)
        self._heap: list[tuple[float, int, int, str, int]] = []
        """(s, kind, number of the job, its name, its start); entries of earlier starts are void."""
        self._ended = self._preemptions = 0
        self._held_gpu_s = 0.0
        self._placed_s: dict[int, float] = {}
        self._wake_s = math.inf

    def run(self) -> Totals:
        """Until all jobs have ended; raises ``ValueError`` for a job that cannot run on the cluster."""
        while self.next_s < math.inf:
            self.step()
        return self.totals

    @property
    def totals(self) -> Totals:
        """The totals so far."""
        return Totals(ended=self._ended, end_s=self.now, held_gpu_s=self._held_gpu_s, preemptions=self._preemptions)

    @property
    def next_s(self) -> float:
        """Time of the next moment; infinity: all is over."""
        own_s = self._heap[0][0] if self._heap else math.inf
        own_s = min(own_s, self._wake_s)
        return own_s if self._next is None else min(own_s, self._next.submit_s)

    def step(self) -> None:
        """Advance to the next moment, and report all its events."""
        self.now = now = self.next_s
        inputs: list[AnyInput] = []
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, kind, _, job, start = heapq.heappop(heap)
            if (given := self._report(kind, job, start)) is not None:
                inputs.append(given)
        if self._wake_s <= now:
            self._wake_s = math.inf
            inputs.append(Woke())
        while self._next is not None and self._next.submit_s <= now:
            if self._next.duration_s is None:
                raise ValueError(
                    f"job {self._next.job}: detail=gpus_only needs its duration; give one, or use iterations"
                )
            inputs.append(JobSubmitted(self._next))
            self._next = next(self._requests, None)
        if inputs:
            self.coordinator.receive(now, *inputs)

    def _report(self, kind: int, job: str, start: int) -> AnyInput | None:
        state = self.coordinator.jobs.get(job)
        if state is None or state.starts != start or state.places is None:
            return None  # it was preempted meanwhile
        if kind == START:
            return JobStarted(job)
        self._ended += 1
        self._account(state)
        return JobEnded(job)

    def _account(self, state: JobState) -> None:
        self._held_gpu_s += state.request.gpus * (self.now - self._placed_s.pop(state.number))

    # ---- the port ----------------------------------------------------------------------------------------------------

    def start(self, job: JobState, places: Places) -> None:
        """Schedule the job's end; its tasks compute at once, or after ``restart_s`` if it was preempted before."""
        now, name, start = self.now, job.request.job, job.starts + 1
        begin_s = now + self.restart_s if job.starts else now
        self._placed_s[job.number] = now
        if begin_s == now:
            self.coordinator.receive(now, JobStarted(name))
        else:
            heapq.heappush(self._heap, (begin_s, START, job.number, name, start))
        heapq.heappush(self._heap, (begin_s + (job.remaining_at(now) or 0.0), END, job.number, name, start))

    def preempt(self, job: JobState) -> None:
        """The job gives its GPUs back at once."""
        self._preemptions += 1
        self._account(job)
        self.coordinator.receive(self.now, JobGone(job.request.job))

    def wake(self, at_s: float) -> None:
        """The policy decides again at that time."""
        self._wake_s = at_s
