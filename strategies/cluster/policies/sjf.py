"""Shortest job first, without preemption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from strategies.cluster.jobs import WaitingJobs
from strategies.cluster.starting import start_what_fits
from strategies.protocol import ClusterCommand, JobState, Machine, Placement, Policy, Room


@final
@dataclass(kw_only=True)
class Sjf(Policy):
    """The shortest of the waiting jobs starts first; one that has no place is passed over, and may starve.

    Durations come from the requests, so they are known to the second.
    """

    needs_durations = True
    work_conserving = True

    def begin(self, machines: Sequence[Machine]) -> None:
        self._waiting = WaitingJobs()

    def changed(self, old: JobState | None, new: JobState | None) -> None:
        if old is not None and old.phase == "waiting":
            self._waiting.remove(old)
        if new is not None and new.phase == "waiting":
            self._waiting.add(new, new.remaining_at(new.since_s) or 0.0)

    def decide(self, t: float, room: Room, placement: Placement) -> Sequence[ClusterCommand]:
        if room.free_gpus < self._waiting.smallest:
            return ()
        return start_what_fits(self._waiting.walk(), room, placement)
