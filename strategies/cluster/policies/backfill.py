"""First in, first out, with EASY backfilling (Lifka, JSSPP 1995; Mu'alem and Feitelson, TPDS 2001)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from reading.ranges import Checked, PositiveInt
from strategies.cluster.jobs import WaitingJobs, Walk
from strategies.cluster.starting import start_until_blocked, try_to_start
from strategies.protocol import ClusterCommand, JobState, Machine, Placement, Policy, Room, StartJob


@final
@dataclass(kw_only=True)
class Backfill(Checked, Policy):
    """As ``Fifo``, but while the first job in line waits, later ones may start if that does not delay it.

    The first in line has a reservation: the time at which enough of the jobs that hold GPUs will have ended, if they
    last as long as their requests say. A later job that has a place may start if it will have ended by then, or if the
    first in line has a place then although the later one still runs. Only the first in line has a reservation, so those
    between them may be delayed.

    Attributes:
        depth: how many later jobs are looked at in one decision, in their order; null: all (Slurm: bf_max_job_test).
    """

    needs_durations = True

    depth: PositiveInt | None = 500

    def begin(self, machines: Sequence[Machine]) -> None:
        self._waiting = WaitingJobs()
        self._ends: list[tuple[float, int, str]] = []
        """When jobs with GPUs are expected to end: (s, number, name)."""

    def changed(self, old: JobState | None, new: JobState | None) -> None:
        if old is not None:
            if old.phase == "waiting":
                self._waiting.remove(old)
            else:
                del self._ends[bisect_left(self._ends, _expected_end(old))]
        if new is not None:
            if new.phase == "waiting":
                self._waiting.add(new, 0.0)
            else:
                insort(self._ends, _expected_end(new))

    def decide(self, t: float, room: Room, placement: Placement) -> Sequence[ClusterCommand]:
        if room.free_gpus < self._waiting.smallest:
            return ()
        walk = self._waiting.walk()
        starts, first = start_until_blocked(walk, room, placement)
        if first is None or not room.free_gpus:
            return starts
        by_s, then = self._reservation(t, first, starts, room, placement)
        return starts + self._later(t, by_s, first, walk, room, then, placement)

    def _reservation(
        self, t: float, first: JobState, starts: list[StartJob], room: Room, placement: Placement
    ) -> tuple[float, Room]:
        """When the first in line will have a place, and the books of that time without it."""
        own = [(t + (room.held[one.job][0].duration_s or 0.0), -1, one.job) for one in starts]
        then = room.copy()
        for end_s, _, job in sorted([*self._ends, *own]) if own else self._ends:
            then.release(job)
            if first.request.gpus <= then.free_gpus and placement.place(first.request, then) is not None:
                return max(t, end_s), then
        raise AssertionError(f"job {first.request.job} has no place on the empty cluster")

    def _later(
        self, t: float, by_s: float, first: JobState, walk: Walk, room: Room, then: Room, placement: Placement
    ) -> list[StartJob]:
        starts: list[StartJob] = []
        walk.limit = room.free_gpus
        for looked, (_, state) in enumerate(walk):
            if looked == self.depth or not walk.limit:
                break
            request = state.request
            is_short = t + (request.duration_s or 0.0) <= by_s
            if not is_short and request.gpus > then.free_gpus - first.request.gpus:
                continue
            start = try_to_start(state, room, placement)
            if start is None:
                walk.limit = request.gpus - 1
                continue
            if not is_short:
                then.take(request, start.places)
                if placement.place(first.request, then) is None:
                    then.release(request.job)
                    room.release(request.job)
                    continue
            starts.append(start)
            walk.limit = min(walk.limit, room.free_gpus)
        return starts


def _expected_end(holder: JobState) -> tuple[float, int, str]:
    left_s = holder.remaining_at(holder.since_s) or 0.0
    return holder.since_s + left_s, holder.number, holder.request.job
