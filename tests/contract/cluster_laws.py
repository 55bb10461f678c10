"""What every policy and placement of a cluster owes, as checkers that complain; and a slow runtime to play them in."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import msgspec

from runtime.core.cluster.coordinator import ClusterCoordinator
from runtime.core.cluster.inputs import AnyInput, JobEnded, JobGone, JobStarted, JobSubmitted, TaskMoved, Woke
from strategies.protocol import ClusterCommand, JobRequest, JobState, Machine, NodeId, Placement, Places, Policy, Room

Complaints = list[str]


class Watched:
    """A policy that another one decides for; it keeps the questions and answers, and may lose its mind on the way."""

    def __init__(self, policy: Policy, reborn: Callable[[Policy], Policy] | None = None) -> None:
        self.policy, self.reborn = policy, reborn
        self.preempts, self.needs_durations = policy.preempts, policy.needs_durations
        self.work_conserving = policy.work_conserving
        self.answers: list[tuple[float, tuple[ClusterCommand, ...]]] = []
        self.idle: Complaints = []
        self.leaving: set[str] = set()
        self.waiting: dict[str, JobRequest] = {}

    def begin(self, machines: Sequence[Machine]) -> None:
        self.policy.begin(machines)

    def changed(self, old: JobState | None, new: JobState | None) -> None:
        state = new or old
        assert state is not None
        job = state.request.job
        self.leaving.discard(job)
        self.waiting.pop(job, None)
        if new is not None and new.phase == "leaving":
            self.leaving.add(job)
        if new is not None and new.phase == "waiting":
            self.waiting[job] = new.request
        self.policy.changed(old, new)

    def decide(self, t: float, room: Room, placement: Placement) -> Sequence[ClusterCommand]:
        if self.reborn is not None:
            self.policy = self.reborn(self.policy)
        real = room.copy()
        answer = tuple(self.policy.decide(t, room, placement))
        self.answers.append((t, answer))
        self._look_for_idle(t, answer, real, placement)
        return answer

    def next_s(self, t: float) -> float:
        return self.policy.next_s(t)

    def validate(self, machines: Sequence[Machine]) -> None:
        self.policy.validate(machines)

    def _look_for_idle(self, t: float, answer: Sequence[ClusterCommand], room: Room, placement: Placement) -> None:
        if not self.work_conserving or self.leaving or any(type(one).__name__ == "PreemptJob" for one in answer):
            return
        for one in answer:
            room.take(self.waiting[one.job], one.places)  # type: ignore[union-attr]
        started = {one.job for one in answer}
        for job, request in self.waiting.items():
            if job not in started and placement.place(request, room) is not None:
                self.idle.append(f"{t:g} s: {job} has a place and does not start")


class SlowPort:
    """Starts and departures take random time, as they do with real processes; so do ends that nobody expected."""

    def __init__(self, seed: int, machines: Sequence[Machine], policy: Policy, placement: Placement) -> None:
        self.draws = random.Random(seed)
        self.now = 0.0
        self.notes: list[tuple[float, str, dict[str, Any]]] = []
        self.placement = placement
        self.coordinator = ClusterCoordinator(machines, policy, placement, self, self.note)
        self.wake_s = float("inf")
        self.relocates = False
        """Whether jobs restart tasks elsewhere."""
        self._heap: list[tuple[float, int, AnyInput, str, int]] = []
        self._count = 0

    def note(self, t: float, kind: str, /, **fields: Any) -> None:
        self.notes.append((t, kind, fields))

    def start(self, job: JobState, places: Places) -> None:
        name, slowness = job.request.job, self.draws.choice((0.8, 1.0, 1.0, 1.5))
        begin_s = self.now + self.draws.choice((0.0, 2.0))
        self._add(begin_s, JobStarted(name), name, job.starts + 1)
        left_s = job.remaining_at(self.now)
        self._add(begin_s + (30.0 if left_s is None else left_s) * slowness, JobEnded(name), name, job.starts + 1)

    def preempt(self, job: JobState) -> None:
        name = job.request.job
        self._add(self.now + self.draws.choice((0.0, 1.0, 5.0)), JobGone(name), name, job.starts)

    def wake(self, at_s: float) -> None:
        self.wake_s = at_s

    def run(self, jobs: Sequence[JobRequest]) -> None:
        for one in jobs:
            self._add(one.submit_s, JobSubmitted(one), one.job, 0)
        while self._heap:
            self.now = min(self._heap[0][0], self.wake_s)
            if self.now == self.wake_s:
                self.wake_s = float("inf")
                self.coordinator.receive(self.now, Woke())
                continue
            _, _, given, job, start = heapq.heappop(self._heap)
            state = self.coordinator.jobs.get(job)
            if isinstance(given, JobSubmitted) or (state is not None and self._is_current(state, given, start)):
                self.coordinator.receive(self.now, given)
                if self.relocates:
                    self._restart_somebody()

    def _restart_somebody(self) -> None:
        """A job that has places restarts one of its tasks, which goes where there is a place for it."""
        placed = [state for state in self.coordinator.jobs.values() if state.places is not None]
        if placed and self.draws.random() < 0.3:
            state = self.draws.choice(placed)
            request, job = state.request, state.request.job
            tasks = [*map(NodeId.worker, range(request.gpus)), *map(NodeId.server, range(request.servers))]
            if self.coordinator.relocate(self.now, job, node := self.draws.choice(tasks)) is not None:
                self._add(self.now + self.draws.choice((0.0, 0.5)), TaskMoved(job, node), job, state.starts)

    def _is_current(self, state: JobState, given: AnyInput, start: int) -> bool:
        return state.starts == start and state.phase != "waiting"

    def _add(self, t: float, given: AnyInput, job: str, start: int) -> None:
        self._count += 1
        heapq.heappush(self._heap, (t, self._count, given, job, start))


def played(
    policy: Policy,
    placement: Placement,
    machines: Sequence[Machine],
    jobs: Sequence[JobRequest],
    seed: int = 0,
    reborn: Callable[[Policy], Policy] | None = None,
    *,
    relocates: bool = False,
) -> tuple[SlowPort, Watched, Complaints]:
    """A whole run, and what the automaton refused."""
    watched = Watched(policy, reborn)
    port = SlowPort(seed, machines, watched, placement)
    port.relocates = relocates
    try:
        port.run(jobs)
    except (RuntimeError, ValueError) as error:
        return port, watched, [f"{type(error).__name__}: {error}"]
    return port, watched, []


def oversubscribed(port: SlowPort, machines: Sequence[Machine], jobs: Sequence[JobRequest]) -> Complaints:
    """GPUs that two jobs hold, and gangs that are not whole, by the record alone."""
    free = [machine.gpus for machine in machines]
    wanted = {one.job: one for one in jobs}
    places: dict[str, list[int]] = {}
    preempted: set[str] = set()
    found = []
    for t, kind, fields in port.notes:
        job = fields["job"]
        if kind == "Placed":
            places[job] = list(fields["workers"])
            if len(fields["workers"]) != wanted[job].gpus or len(fields["servers"]) != wanted[job].servers:
                found.append(f"{t:g} s: the gang of {job} is not whole")
            for machine in fields["workers"]:
                free[machine] -= 1
        elif kind == "Moved":
            role, number = NodeId.parse(fields["task"])
            if role == "worker":
                free[places[job][number]] += 1
                free[fields["host"]] -= 1
                places[job][number] = fields["host"]
        elif kind == "Preempted":
            preempted.add(job)
        elif kind == "Ended" or (kind == "Queued" and job in preempted):
            preempted.discard(job)
            for machine in places.pop(job, ()):
                free[machine] += 1
        found += [f"{t:g} s: machine {n} has {left} GPUs left" for n, left in enumerate(free) if left < 0]
    return found


def unfinished(port: SlowPort, jobs: Sequence[JobRequest]) -> Complaints:
    """Jobs that have not ended, or not once; so a preempted one has come back."""
    ended = [fields["job"] for _, kind, fields in port.notes if kind == "Ended"]
    return [f"{one.job} has ended {ended.count(one.job)} times" for one in jobs if ended.count(one.job) != 1]


def renamed(jobs: Sequence[JobRequest], seed: int) -> tuple[list[JobRequest], dict[str, str]]:
    """The same jobs with their names shuffled, and the old name of each new one."""
    names = [one.job for one in jobs]
    others = random.Random(seed).sample(names, len(names))
    changed = [msgspec.structs.replace(one, job=name) for one, name in zip(jobs, others, strict=True)]
    return changed, dict(zip(others, names, strict=True))


def by_name(answers: Sequence[tuple[float, tuple[ClusterCommand, ...]]], old: dict[str, str]) -> list[Any]:
    """The answers with the old names."""
    return [(t, tuple(msgspec.structs.replace(one, job=old[one.job]) for one in answer)) for t, answer in answers]


def impure_places(placement: Placement, room: Room, requests: Sequence[JobRequest]) -> Complaints:
    """What a placement must not do: change the books, answer differently, place a part, or go by more than the GPUs."""
    found = []
    before = (room.free[:], room.tenants[:], dict(room.held))
    largest_placed, smallest_refused = 0, 10**9
    for request in requests:
        places = placement.place(request, room)
        if (room.free, room.tenants, room.held) != before:
            return [*found, f"{request.job}: the books were changed"]
        if places != deepcopy(placement).place(request, room):
            found.append(f"{request.job}: two answers for the same books")
        if places is None:
            smallest_refused = min(smallest_refused, request.gpus)
        else:
            largest_placed = max(largest_placed, request.gpus)
            try:
                room.copy().take(request, places)
            except RuntimeError as error:
                found.append(str(error))
    if largest_placed >= smallest_refused:
        found.append(f"{largest_placed} GPUs have a place, {smallest_refused} have none")
    return found
