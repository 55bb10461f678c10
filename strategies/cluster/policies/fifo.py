"""First in, first out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from strategies.cluster.jobs import WaitingJobs
from strategies.cluster.starting import start_until_blocked
from strategies.protocol import ClusterCommand, JobState, Machine, Placement, Policy, Room


@final
@dataclass(kw_only=True)
class Fifo(Policy):
    """Jobs start in the order of submission; one that has no place blocks all that came after it."""

    def begin(self, machines: Sequence[Machine]) -> None:
        self._waiting = WaitingJobs()

    def changed(self, old: JobState | None, new: JobState | None) -> None:
        if old is not None and old.phase == "waiting":
            self._waiting.remove(old)
        if new is not None and new.phase == "waiting":
            self._waiting.add(new, 0.0)

    def decide(self, t: float, room: Room, placement: Placement) -> Sequence[ClusterCommand]:
        if room.free_gpus < self._waiting.smallest:
            return ()
        return start_until_blocked(self._waiting.walk(), room, placement)[0]
