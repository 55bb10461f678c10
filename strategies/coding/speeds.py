"""What is known of the workers' throughputs: given once and for all, or equal at first and then measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from strategies.coding.crew import Crew
from strategies.protocol import Arrived
from strategies.watching.throughputs import Throughputs, largest_change

WARMUP_ITERS = 3
"""First iterations of a process that count for nothing."""
PATIENCE = 5
"""Times as many rounds as iterations are measured, in which everybody should have been."""


@final
class Speeds:
    """``known`` holds every worker's throughput as the next code will take it.

    Args:
        workers: of the job's start.
        given: their throughputs, in any unit; None: equal.
        num_iters: iterations that a measurement takes; 0: what is given stays.
        tolerance_frac: a share that changed by no more of it has not changed.
    """

    def __init__(
        self, workers: Sequence[int], given: Sequence[float] | None, num_iters: int, tolerance_frac: float
    ) -> None:
        self.known = dict(zip(workers, map(float, given or [1.0] * len(workers)), strict=True))
        self.num_iters, self.tolerance_frac = num_iters, tolerance_frac
        self._measured = Throughputs(num_iters, WARMUP_ITERS)
        self._rounds = 0

    def tell(self, event: Arrived) -> None:
        """A gradient has arrived."""
        if self.num_iters:
            self._measured.tell(event)

    def of(self, workers: Sequence[int]) -> dict[int, float]:
        """Of these; one that is new counts as the mean of the others until it is measured."""
        old = [self.known[worker] for worker in workers if worker in self.known]
        mean = sum(old) / len(old) if old else 1.0
        self.known |= {worker: mean for worker in workers if worker not in self.known}
        return {worker: self.known[worker] for worker in workers}

    def outdated(self, crew: Crew) -> bool:
        """Whether what was measured since the last code is no longer what that was built for; asked once a round.

        Up to s may never have answered: after a while they count as the mean of the others.
        """
        self._rounds += 1
        if not self.num_iters:
            return False
        measured = {worker: speed for worker, speed in self._measured.known().items() if worker in crew.place}
        missing = len(crew.workers) - len(measured)
        if missing > (crew.s if self._rounds > PATIENCE * self.num_iters else 0):
            return False
        mean = sum(measured.values()) / len(measured)
        now = [measured.get(worker, mean) for worker in crew.workers]
        if largest_change(crew.throughputs, now) <= self.tolerance_frac:
            return False
        self.known |= dict(zip(crew.workers, now, strict=True))
        self._measured.forget()
        self._rounds = 0
        return True
