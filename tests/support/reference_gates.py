"""Jobs with parameter servers, written from the papers' sentences, with nothing of ours: who updates when.

Communication and updates take no time. The k-th iteration of a worker takes ``seconds(worker, k)``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import count, pairwise
from statistics import median
from typing import NamedTuple

Seconds = Callable[[int, int], float]
Member = tuple[int, int]
"""A worker, and how many updates its parameters had when it began to compute."""


class Update(NamedTuple):
    """At ``t`` the gradients of ``members``, in the order of their workers."""

    t: float
    members: tuple[Member, ...]


class Job:
    """``rule(job, t, member, took_s)`` answers every gradient; ``waiting`` are those that are in no update yet."""

    def __init__(self, num_workers: int, seconds: Seconds, rule: Rule) -> None:
        self.num_workers, self.seconds, self.rule = num_workers, seconds, rule
        self.updates: list[Update] = []
        self.waiting: list[Member] = []
        self.computing: dict[int, int] = {}
        self.finished = [0] * num_workers
        self.dropped = 0
        self._begun = [0] * num_workers
        self._heap: list[tuple[float, int, Member, float]] = []
        self._order = count()

    def go(self, t: float, workers: Iterable[int]) -> None:
        """These begin an iteration."""
        for worker in sorted(workers):
            took_s = self.seconds(worker, self._begun[worker])
            self._begun[worker] += 1
            self.computing[worker] = len(self.updates)
            member = (worker, len(self.updates))
            heapq.heappush(self._heap, (t + took_s, next(self._order), member, took_s))

    def update(self, t: float, members: Iterable[Member]) -> list[int]:
        """These make an update, and wait no more; returns their workers."""
        members = sorted(members)
        self.updates.append(Update(t, tuple(members)))
        self.waiting = [member for member in self.waiting if member not in members]
        return [worker for worker, _ in members]

    def drop(self, t: float, worker: int) -> None:
        """The gradient is lost, and its worker begins again."""
        self.dropped += 1
        self.go(t, [worker])

    def fresh(self) -> list[Member]:
        """Waiting gradients on the present parameters."""
        return [member for member in self.waiting if member[1] == len(self.updates)]

    def run(self, until_s: float) -> Job:
        """All workers begin at 0."""
        self.go(0.0, range(self.num_workers))
        while self._heap[0][0] < until_s:
            t, _, member, took_s = heapq.heappop(self._heap)
            del self.computing[member[0]]
            self.finished[member[0]] += 1
            self.waiting.append(member)
            self.rule(self, t, member, took_s)
        return self


Rule = Callable[[Job, float, Member, float], None]


def each(job: Job, t: float, member: Member, took_s: float) -> None:
    """Every gradient is an update (Dean et al., 2012)."""
    job.go(t, job.update(t, [member]))


def first(needed: int) -> Rule:
    """The first ``needed`` gradients on the present parameters; later ones are dropped (Chen et al., 2016)."""

    def rule(job: Job, t: float, member: Member, took_s: float) -> None:
        if member[1] < len(job.updates):
            job.waiting.remove(member)
            job.drop(t, member[0])
        elif len(job.waiting) == needed:
            job.go(t, job.update(t, job.waiting))

    return rule


def bounded(bound: int) -> Rule:
    """Nobody begins who is more than ``bound`` iterations ahead of the slowest (Ho et al., 2013); 0 is a barrier."""
    held = set[int]()

    def rule(job: Job, t: float, member: Member, took_s: float) -> None:
        held.add(member[0])
        if bound:
            job.update(t, [member])
        elif len(job.waiting) == job.num_workers:
            job.update(t, job.waiting)
        may = {worker for worker in held if job.finished[worker] - min(job.finished) <= bound}
        held.difference_update(may)
        job.go(t, may)

    return rule


def every(x: int) -> Rule:
    """The oldest ``x`` gradients, of whatever age (STAR, IV-B)."""

    def rule(job: Job, t: float, member: Member, took_s: float) -> None:
        if len(job.waiting) == x:
            job.go(t, job.update(t, job.waiting))

    return rule


def compensated(k: int, max_delay: int, *, in_time: bool) -> Rule:
    """``k`` fresh gradients, or all that can still be fresh, and late ones (LGC, as STAR has it).

    ``in_time``: a late worker begins at once if its next gradient will be in time as well, by its last iteration and
    the last interval between updates.
    """

    def rule(job: Job, t: float, member: Member, took_s: float) -> None:
        version = len(job.updates)
        if version - member[1] > max_delay:
            job.waiting.remove(member)
            job.drop(t, member[0])
            return
        can_be = len(job.fresh()) + sum(begun == version for begun in job.computing.values())
        if len(job.fresh()) >= min(k, can_be):
            workers = job.update(t, job.waiting)
            job.go(t, {*workers} - {*job.computing})
        elif in_time and member[1] < version:
            before, last = ([0.0] + [update.t for update in job.updates])[-2:]
            if t + took_s - last < (max_delay + 1) * (last - before):
                job.go(t, [member[0]])

    return rule


def until_slow(duration_s: float, tolerance_frac: float = 0.2) -> Rule:
    """All together; single gradients while somebody has been slow for so long (Sync-Switch, as STAR has it).

    A worker is slow whose time is more than ``tolerance_frac`` above the smallest of all workers' last times.
    """
    last, since, flagged = dict[int, float](), dict[int, float](), set[int]()
    alone = False

    def rule(job: Job, t: float, member: Member, took_s: float) -> None:
        nonlocal alone
        worker = member[0]
        last[worker] = took_s
        if took_s > (1 + tolerance_frac) * min(last.values()):
            since.setdefault(worker, t)
            if t - since[worker] >= duration_s:
                flagged.add(worker)
        else:
            since.pop(worker, None)
            flagged.discard(worker)
        if alone or len(job.waiting) == job.num_workers:
            workers = job.update(t, job.waiting)
            alone = bool(flagged)
            job.go(t, workers)

    return rule


def by_cluster(every_iters: int, window_s: float, tolerance_frac: float = 0.2) -> Rule:
    """Clusters of similar workers, each by itself, formed again after every so many iterations (STAR, IV-B)."""
    groups: list[list[int]] = []
    seen = dict[int, list[tuple[float, float]]]()
    known = dict[int, float]()
    arrivals = 0

    def complete(job: Job, t: float) -> None:
        for group in groups or [list(range(job.num_workers))]:
            members = [member for member in job.waiting if member[0] in group]
            if len(members) == len(group):
                job.go(t, job.update(t, members))

    def rule(job: Job, t: float, member: Member, took_s: float) -> None:
        nonlocal arrivals
        arrivals += 1
        seen.setdefault(member[0], []).append((t, took_s))
        complete(job, t)
        if arrivals % (every_iters * job.num_workers) == 0:
            for worker, rows in seen.items():
                recent = [row_s for row_t, row_s in rows if row_t >= t - window_s]
                if recent:
                    known[worker] = sum(recent) / len(recent)
            others_s = median(known.values())
            groups[:] = clusters({each: known.get(each, others_s) for each in range(job.num_workers)}, tolerance_frac)
            complete(job, t)

    return rule


def clusters(times_s: dict[int, float], tolerance_frac: float) -> list[list[int]]:
    """The two neighbours whose union has the smallest ratio are merged while it is small enough."""
    groups = [[worker] for worker in sorted(times_s, key=lambda worker: (times_s[worker], worker))]
    while len(groups) > 1:
        ratios = [times_s[after[-1]] / times_s[before[0]] for before, after in pairwise(groups)]
        best = min(ratios)
        if best > 1 + tolerance_frac:
            break
        at = ratios.index(best)
        groups[at : at + 2] = [groups[at] + groups[at + 1]]
    return groups
