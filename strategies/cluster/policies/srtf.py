"""Shortest remaining time first, and shortest remaining service first: with preemption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from reading.ranges import Bool, Checked
from strategies.cluster.jobs import WaitingJobs
from strategies.cluster.starting import start_by_preempting
from strategies.protocol import ClusterCommand, JobState, Machine, Placement, Policy, Room


@final
@dataclass(kw_only=True)
class Srtf(Checked, Policy):
    """At every arrival and end, the jobs with the least remaining time run; one that has no place is passed over.

    The remaining time is exact, as durations are. It shrinks only while a job runs, so nothing changes between arrivals
    and ends. Equals do not preempt each other.

    Attributes:
        by_gpus: the remaining time is counted in GPU-seconds (SRSF; Tiresias, NSDI 2019), not in seconds (SRTF).
    """

    needs_durations = True
    preempts = True
    work_conserving = True

    by_gpus: Bool = False

    def begin(self, machines: Sequence[Machine]) -> None:
        self._waiting = WaitingJobs()
        self._running: dict[int, tuple[float, float, JobState]] = {}
        """Expected end in seconds, what a second counts, and the job."""
        self._starting: dict[int, JobState] = {}
        self._leaving: dict[str, JobState] = {}

    def changed(self, old: JobState | None, new: JobState | None) -> None:
        if old is not None:
            if old.phase == "waiting":
                self._waiting.remove(old)
            elif old.phase == "leaving":
                del self._leaving[old.request.job]
            elif old.phase == "starting":
                del self._starting[old.number]
            else:
                del self._running[old.number]
        if new is not None:
            if new.phase == "waiting":
                self._waiting.add(new, self._remaining(new, new.since_s))
            elif new.phase == "leaving":
                self._leaving[new.request.job] = new
            elif new.phase == "starting":
                self._starting[new.number] = new
            else:
                weight = float(new.request.gpus) if self.by_gpus else 1.0
                end_s = new.since_s + (new.remaining_at(new.since_s) or 0.0)
                self._running[new.number] = (end_s, weight, new)

    def decide(self, t: float, room: Room, placement: Placement) -> Sequence[ClusterCommand]:
        first = self._waiting.first_value
        holding = [
            (((end_s - t) * weight, number), state)
            for number, (end_s, weight, state) in self._running.items()
            if (end_s - t) * weight > first
        ]
        for number, state in self._starting.items():
            if (left := self._remaining(state, t)) > first:
                holding.append(((left, number), state))
        if not holding and not self._leaving and room.free_gpus < self._waiting.smallest:
            return ()
        holding.sort(reverse=True)
        return start_by_preempting(self._waiting.walk(), holding, self._leaving, room, placement)

    def _remaining(self, state: JobState, t: float) -> float:
        left_s = state.remaining_at(t) or 0.0
        return left_s * state.request.gpus if self.by_gpus else left_s
