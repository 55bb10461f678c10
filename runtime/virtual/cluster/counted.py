"""A cluster whose jobs train nothing on the virtual clock: who holds GPUs, noted and sampled as where jobs train."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import final

from runtime.api import Outcome
from runtime.record.cluster import ClusterRecorder, HostRow
from runtime.virtual.cluster.cluster import INTERRUPTED
from runtime.virtual.counts import CountsReplay
from runtime.virtual.garbage import rare_collections
from runtime.virtual.lab import LOOK_EVERY, VIEW_EVERY_S, interruptible
from strategies.protocol import JobRequest, Machine, Placement, Policy


@final
class CountedCluster:
    """Runs the jobs of one source, each of which holds its GPUs for its ``duration_s`` (``detail: gpus_only``).

    Args:
        requests: in the order of submission.
        record: of the cluster, with samples of held GPUs only.
        use_every_s: seconds between two samples.
        restart_s: seconds for which a job that was preempted holds its GPUs before it continues.
        tick: called a few times per second with the cluster's time, for the view.
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        requests: Sequence[JobRequest],
        policy: Policy,
        placement: Placement,
        record: ClusterRecorder,
        *,
        use_every_s: float,
        restart_s: float,
        tick: Callable[[float], None] = lambda t: None,
    ) -> None:
        self.record, self._every_s, self._tick = record, use_every_s, tick
        self.interrupted_by = 0
        """The signal that ended it, if one did."""
        self._replay = CountsReplay(requests, machines, policy, placement, record.note, restart_s)
        self._sampled_s = 0.0
        self._samples = 0

    @property
    def now(self) -> float:
        """Seconds of its clock: time of the last event, or of a later sample where an interrupt ends a quiet time."""
        return max(self._replay.now, self._sampled_s)

    def run(self) -> dict[str, Outcome]:
        """Until all jobs are over, or a signal; none of them has an outcome of its own."""
        steps, seen_s = 0, -math.inf
        with interruptible(self), rare_collections():
            while (next_s := self._replay.next_s) < math.inf:
                self._sample_until(next_s)
                if self.interrupted_by:
                    break
                self._replay.step()
                steps += 1
                if steps % LOOK_EVERY == 0 and time.monotonic() - seen_s >= VIEW_EVERY_S:
                    seen_s = time.monotonic()
                    self._tick(self.now)
        if self.interrupted_by:
            self._end_all()
        self._sample(self.now)
        return {}

    def _sample_until(self, next_s: float) -> None:
        """All samples before this time, which may be many: a signal ends them, too."""
        while not self.interrupted_by and (at_s := (self._samples + 1) * self._every_s) < next_s:
            self._sample(at_s)

    def _sample(self, at_s: float) -> None:
        """A row for each host, of the period that ends then; none for a period without length."""
        self._samples += 1
        if at_s > self._sampled_s:
            used = self._replay.coordinator.gpus_used
            self.record.hosts([HostRow(at_s, host, gpus, 0.0, 0.0, 0.0) for host, gpus in enumerate(used)])
        self._sampled_s = at_s

    def _end_all(self) -> None:
        """After an interrupt no job starts any more, and jobs that hold GPUs give them back."""
        for job in list(self._replay.coordinator.jobs.values()):
            if job.phase != "waiting":
                self.record.note(self.now, "Ended", job=job.request.job, status=INTERRUPTED)
