"""Gate ``bounded(s)``: a worker may be at most s iterations ahead of the slowest (SSP)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, final

from reading.ranges import Checked, NonNegativeInt
from strategies.parts.gates.base import NOTHING, Verdict, by_worker
from strategies.protocol import Grad


@final
@dataclass(kw_only=True)
class BoundedGate(Checked):
    """Worker i may start iff c_i - min_j c_j <= bound, c = iterations finished. Every event costs O(1) amortised.

    With bound 0 no worker can read before the round is complete, so its updates are merged into one: then the
    gate equals ``AllGate`` bit for bit, momentum included.

    Attributes:
        bound: iterations, 0 or more.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = False

    bound: NonNegativeInt = 3

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        """All of them; they are at clock 0."""
        self.clock = dict.fromkeys(sorted(workers), 0)
        self.low = 0
        self.at_clock = Counter({0: len(self.clock)})
        self.blocked: defaultdict[int, set[int]] = defaultdict(set)
        self.lost_work: set[int] = set()
        self.merged: list[Grad] = []
        return tuple(self.clock)

    def arrived(self, grad: Grad) -> Verdict:
        """Advance the worker's clock; the worker waits until the slowest is at most ``bound`` behind."""
        worker = grad.worker
        clock = self.clock[worker] + 1
        self.clock[worker] = clock
        self.at_clock[clock - 1] -= 1
        self.at_clock[clock] += 1
        if self.at_clock[self.low] and clock - self.low <= self.bound and clock not in self.blocked and self.bound:
            return Verdict(apply=(grad,), go=(worker,))  # mostly: the slowest makes no step, and no other waits here
        self.blocked[clock].add(worker)
        if self.bound > 0:
            return Verdict(apply=(grad,), go=self._release(clock))
        self.merged.append(grad)
        return self._release_merged(clock)

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """A worker that restarts keeps its clock; one that left no longer blocks the others."""
        if worker not in self.clock:
            return NOTHING
        if restarting:
            if worker not in self.blocked[self.clock[worker]]:
                self.lost_work.add(worker)
            return NOTHING
        self.lost_work.discard(worker)
        self.blocked[self.clock[worker]].discard(worker)
        self.at_clock[self.clock.pop(worker)] -= 1
        return self._release_merged(self.low) if self.bound == 0 else Verdict(go=self._release(self.low))

    def joined(self, worker: int) -> Verdict:
        """A newcomer starts at the slowest clock; a returning worker repeats the work that it lost, if any."""
        if worker not in self.clock:
            self.clock[worker] = self.low
            self.at_clock[self.low] += 1
        elif worker not in self.lost_work:
            return NOTHING
        self.lost_work.discard(worker)
        return Verdict(go=(worker,))

    def _release(self, clock: int) -> tuple[int, ...]:
        """Workers that may go now: those at ``clock`` within the bound, and all that the slowest's step unblocks."""
        old = self.low
        if self.clock:
            while not self.at_clock[self.low]:
                del self.at_clock[self.low]
                self.low += 1
        if self.low == old and clock - old > self.bound:
            return ()  # the slowest made no step, and a worker that made one is too far ahead
        free = set(self.blocked.pop(clock, ())) if clock - self.low <= self.bound else set()
        for level in range(old + self.bound + 1, self.low + self.bound + 1):
            free |= self.blocked.pop(level, set())
        return tuple(sorted(free))

    def _release_merged(self, clock: int) -> Verdict:
        """With bound 0: when the slowest clock has advanced, the buffered gradients are one update."""
        old = self.low
        go = self._release(clock)
        if self.low == old and self.clock:
            return NOTHING
        update, self.merged = by_worker(self.merged), []
        return Verdict(apply=update, go=go)

    def log_state(self) -> dict[str, float | int | str]:
        return {"slowest_clock": self.low, "blocked": sum(map(len, self.blocked.values()))}
