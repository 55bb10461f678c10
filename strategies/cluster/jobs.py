"""A policy's memory of the cluster's jobs: waiting jobs, by size and rank, and jobs that hold GPUs."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Iterator

from strategies.protocol import JobState

Rank = tuple[float, int]
"""Jobs with a smaller first number come first, then those that were submitted first."""
_Entry = tuple[Rank, JobState]


class WaitingJobs:
    """Waiting jobs by number of GPUs, each list by rank; the rank of a job is fixed while it waits.

    Since a gang without a place leaves none for a larger one, a decision looks at the first job of every size and not
    at the whole queue.
    """

    def __init__(self) -> None:
        self._sizes: dict[int, list[_Entry]] = {}
        self._ranks: dict[int, Rank] = {}
        self._states: dict[int, JobState] = {}

    def add(self, state: JobState, value: float) -> None:
        """A job waits from now on; the smaller the value, the earlier its turn."""
        rank = (value, state.number)
        self._ranks[state.number], self._states[state.number] = rank, state
        insort(self._sizes.setdefault(state.request.gpus, []), (rank, state))

    def remove(self, state: JobState) -> None:
        """A job does not wait any more."""
        rank, gpus = self._ranks.pop(state.number), state.request.gpus
        jobs = self._sizes[gpus]
        del jobs[bisect_left(jobs, (rank,))], self._states[state.number]
        if not jobs:
            del self._sizes[gpus]

    def state_of(self, number: int) -> JobState | None:
        """A job that waits, by its number; None: it does not."""
        return self._states.get(number)

    @property
    def first_value(self) -> float:
        """The smallest value of all; infinity: no job waits."""
        return min((jobs[0][0][0] for jobs in self._sizes.values()), default=math.inf)

    @property
    def smallest(self) -> int:
        """The fewest GPUs that any of them needs; there must be one."""
        return min(self._sizes)

    def walk(self) -> Walk:
        """Begin to go through them in the order of rank."""
        return Walk(self._sizes)


class Walk(Iterator[tuple[Rank, JobState]]):
    """The waiting jobs by rank, up to :attr:`limit` GPUs each; none may be added or removed meanwhile."""

    def __init__(self, sizes: dict[int, list[_Entry]]) -> None:
        self.limit = max(sizes, default=0)
        """Only gangs of so many GPUs or fewer are still looked at; may be lowered on the way."""
        self._sizes = sizes
        self._heads = [(jobs[0][0], gpus, 0) for gpus, jobs in sizes.items()]
        heapq.heapify(self._heads)

    def __next__(self) -> tuple[Rank, JobState]:
        heads = self._heads
        while heads:
            rank, gpus, place = heads[0]
            if gpus > self.limit:
                heapq.heappop(heads)
                continue
            jobs = self._sizes[gpus]
            if place + 1 < len(jobs):
                heapq.heapreplace(heads, (jobs[place + 1][0], gpus, place + 1))
            else:
                heapq.heappop(heads)
            return rank, jobs[place][1]
        raise StopIteration
