"""Which workers stay slow, and so are to be replaced (pure).

After Or, Zhang and Freedman, "Resource elasticity in distributed deep learning", MLSys 2020.
"""

from __future__ import annotations

from collections.abc import Collection
from statistics import median
from typing import final

from strategies.parts.checks import check_number


@final
class SlowWorkers:
    """A moving average of each worker's throughput, relative to the median of all that have been measured.

    Args:
        weight: of the newest iteration.
        threshold: average below which a worker is slow.

    A new worker begins at 1, so that one slow iteration does not flag it.
    """

    def __init__(self, weight: float = 0.1, threshold: float = 0.8) -> None:
        check_number("weight", weight, above=0.0, most=1.0)
        check_number("threshold", threshold, above=0.0, most=1.0)
        self.weight, self.threshold = weight, threshold
        self.average: dict[int, float] = {}
        self._rates: dict[int, float] = {}

    def observe(self, worker: int, rate: float) -> None:
        """A worker's throughput in its last iteration, in any unit above zero."""
        self._rates[worker] = rate
        share = rate / median(self._rates.values())
        self.average[worker] = (1 - self.weight) * self.average.get(worker, 1.0) + self.weight * share

    def forget(self, worker: int) -> None:
        """It has left, or another process has its number."""
        self._rates.pop(worker, None)
        self.average.pop(worker, None)

    def keep_only(self, workers: Collection[int]) -> None:
        """Forget all workers but these."""
        for worker in self._rates.keys() - set(workers):
            self.forget(worker)

    def slow(self) -> list[int]:
        """All that are slow, the slowest first."""
        found = [worker for worker, average in self.average.items() if average < self.threshold]
        return sorted(found, key=lambda worker: (self.average[worker], worker))
