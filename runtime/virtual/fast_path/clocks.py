"""The gate of regular jobs: ``BoundedGate`` for workers that never leave, as fast as Python can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final


@final
class Clocks:
    """Iterations finished by each worker, and workers that wait because they are too far ahead (``BoundedGate``)."""

    def __init__(self, num_workers: int, bound: int) -> None:
        self.clock = [0] * num_workers
        self.low, self.high = 0, bound
        """Of the slowest, and the last one with which a worker may continue."""
        self.behind = num_workers
        """Workers at the slowest clock."""
        self.alone = [(worker,) for worker in range(num_workers)]
        self.blocked: dict[int, list[int]] = {}

    def tick(self, worker: int) -> Sequence[int]:
        """Count an iteration of a worker; return the workers that may continue, in order."""
        clock = self.clock[worker] = self.clock[worker] + 1
        if clock == self.low + 1:
            self.behind -= 1
            if not self.behind:
                return self._step(worker, clock)
        if clock <= self.high:
            return self.alone[worker]
        self.blocked.setdefault(clock, []).append(worker)
        return ()

    def _step(self, worker: int, clock: int) -> list[int]:
        """The slowest clock has advanced, by one, since this worker is there: return the workers that this unblocks."""
        self.low, self.high = clock, self.high + 1
        self.behind = self.clock.count(clock)
        return sorted([*([worker] if clock <= self.high else ()), *self.blocked.pop(self.high, ())])
