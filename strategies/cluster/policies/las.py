"""Least attained service (Tiresias, NSDI 2019, section 3.2): no durations are needed."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from reading.ranges import Bool, PositiveFloat, check_number, check_settings
from strategies.cluster.jobs import WaitingJobs
from strategies.cluster.starting import start_by_preempting
from strategies.protocol import ClusterCommand, JobState, Machine, Placement, Policy, Room

ROUNDING_S = 1e-6
"""Moves due this much later are made, too, in spite of rounding: of jobs that take turns one goes as another comes."""


@dataclass(kw_only=True)
class Past:
    """The time that a job has waited since it was last promoted, and its ``attained_s`` when it was promoted."""

    attained_s: float = 0.0
    waited_s: float = 0.0


@final
@dataclass(kw_only=True)
class Las(Policy):
    """Jobs that have had little run before those that have had much, in queues; within a queue in the order of arrival.

    A job begins in the first queue and goes to the next one when the service that it has had reaches the queue's
    threshold; jobs of a later queue give way to jobs of an earlier one (discretised two-dimensional LAS). With
    ``quantum`` instead of thresholds there are queues without end, each so much service wide: plain LAS, in which
    running jobs and waiting ones take turns. A job that has no place is passed over.

    With ``promote`` a job that has starved is in the first queue again, as if it had had nothing: when it has waited
    for ``promote`` times as long as it has run, both since it was last promoted (the paper's PROMOTEKNOB). The wait
    before its first run does not count.

    Attributes:
        thresholds: of the service, ascending, in GPU-seconds or seconds; the published simulator has 3250, 7200, 18000.
        quantum: the width of queues without end, in the same unit; null: the thresholds make the queues.
        by_gpus: service is counted in GPU-seconds (two-dimensional), not in seconds.
        promote: a factor; null: never, as in the paper's evaluation.
    """

    preempts = True
    work_conserving = True

    thresholds: tuple[float, ...] = (3250.0, 7200.0, 18000.0)
    quantum: PositiveFloat | None = None
    by_gpus: Bool = True
    promote: PositiveFloat | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        self.thresholds = tuple(self.thresholds)
        for place, one in enumerate(self.thresholds):
            check_number("thresholds", one, above=0 if not place else self.thresholds[place - 1])
        if (self.quantum is None) != bool(self.thresholds):
            raise ValueError(
                f"quantum={self.quantum}: give either thresholds or a quantum, and make the other null or []"
            )

    def begin(self, machines: Sequence[Machine]) -> None:
        self._waiting = WaitingJobs()
        self._holding: dict[int, JobState] = {}
        self._leaving: dict[str, JobState] = {}
        self._queue: dict[int, int] = {}
        """Queues by job. A running job is moved at the time for which that was planned, not by its service then, which
        rounding may leave just below the threshold."""
        self._moves: list[tuple[float, int, float]] = []
        """When running jobs reach the next queue: (s, number, since when it runs); some are void."""
        self._starved: list[tuple[float, int, float]] = []
        """When waiting jobs are promoted, likewise."""
        self._past: dict[int, Past] = {}

    def changed(self, old: JobState | None, new: JobState | None) -> None:
        if old is not None:
            if old.phase == "waiting":
                self._waiting.remove(old)
                if new is not None:
                    self._has_waited(old, new.since_s)
            elif old.phase == "leaving":
                del self._leaving[old.request.job]
            else:
                del self._holding[old.number]
        if new is None:
            assert old is not None
            del self._queue[old.number], self._past[old.number]
        elif new.phase == "waiting":
            self._past.setdefault(new.number, Past())
            queue = max(self._queue.get(new.number, 0), self._queue_at(self._service(new)))
            self._queue[new.number] = queue
            self._waiting.add(new, queue)
            self._plan_promotion(new)
        elif new.phase == "leaving":
            self._leaving[new.request.job] = new
        else:
            self._holding[new.number] = new
            if new.phase == "running" and (old is None or old.phase != "running"):  # else it has a move planned
                self._plan_move(new)

    def decide(self, t: float, room: Room, placement: Placement) -> Sequence[ClusterCommand]:
        self._move(t)
        self._promote(t)
        first, queue = self._waiting.first_value, self._queue
        holding = [((float(queue[n]), n), state) for n, state in self._holding.items() if queue[n] > first]
        if not holding and not self._leaving and room.free_gpus < self._waiting.smallest:
            return ()
        holding.sort(reverse=True)
        return start_by_preempting(self._waiting.walk(), holding, self._leaving, room, placement)

    def next_s(self, t: float) -> float:
        while self._moves and self._is_void(*self._moves[0]):
            heapq.heappop(self._moves)
        while self._starved and self._waits_no_more(*self._starved[0]):
            heapq.heappop(self._starved)
        due = [planned[0][0] for planned in (self._moves, self._starved) if planned]
        return max(min(due), math.nextafter(t, math.inf)) if due else math.inf

    def _move(self, t: float) -> None:
        while self._moves and self._moves[0][0] <= t + ROUNDING_S:
            move = heapq.heappop(self._moves)
            if not self._is_void(*move):
                self._queue[move[1]] += 1
                self._plan_move(self._holding[move[1]])

    def _plan_move(self, state: JobState) -> None:
        limit = self._limit(self._queue[state.number])
        if limit < math.inf:
            left_s = (limit - self._service(state)) / self._rate(state)
            heapq.heappush(self._moves, (state.since_s + max(left_s, 0.0), state.number, state.since_s))

    # ---- jobs that starve --------------------------------------------------------------------------------------------

    def _promote(self, t: float) -> None:
        while self._starved and self._starved[0][0] <= t + ROUNDING_S:
            planned = heapq.heappop(self._starved)
            if self._waits_no_more(*planned):
                continue
            state = self._waiting.state_of(planned[1])
            assert state is not None
            self._past[state.number] = Past(attained_s=state.attained_s)
            self._queue[state.number] = 0
            self._waiting.remove(state)
            self._waiting.add(state, 0)

    def _plan_promotion(self, state: JobState) -> None:
        past = self._past[state.number]
        ran_s = state.attained_s - past.attained_s
        if self.promote is not None and self._queue[state.number] and ran_s > 0:
            left_s = max(self.promote * ran_s - past.waited_s, 0.0)
            heapq.heappush(self._starved, (state.since_s + left_s, state.number, state.since_s))

    def _has_waited(self, state: JobState, until_s: float) -> None:
        """It has GPUs; the wait before its first run since its promotion does not count."""
        past = self._past[state.number]
        if state.attained_s > past.attained_s:
            past.waited_s += until_s - state.since_s

    def _waits_no_more(self, at_s: float, number: int, since_s: float) -> bool:
        state = self._waiting.state_of(number)
        return state is None or state.since_s != since_s or not self._queue[number]

    # ---- service -----------------------------------------------------------------------------------------------------

    def _is_void(self, at_s: float, number: int, since_s: float) -> bool:
        state = self._holding.get(number)
        return state is None or state.phase != "running" or state.since_s != since_s

    def _rate(self, state: JobState) -> int:
        """Service that a running job has in a second."""
        return state.request.gpus if self.by_gpus else 1

    def _service(self, state: JobState) -> float:
        """The service between the job's last promotion and the begin of its present phase."""
        return (state.attained_s - self._past[state.number].attained_s) * self._rate(state)

    def _queue_at(self, service: float) -> int:
        return bisect_right(self.thresholds, service) if self.quantum is None else int(service // self.quantum)

    def _limit(self, queue: int) -> float:
        """Where a queue ends."""
        if self.quantum is not None:
            return (queue + 1) * self.quantum
        return self.thresholds[queue] if queue < len(self.thresholds) else math.inf
