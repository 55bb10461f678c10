"""How many workers still pay: growth by steps while the last one has helped (Or et al., MLSys 2020; pure).

After Or, Zhang and Freedman, "Resource elasticity in distributed deep learning"; threshold and steps as in the
comparison of DLRover section 6.3.
"""

from __future__ import annotations

from typing import final

from strategies.parts.checks import check_number, check_whole


def marginal_gain(old_workers: int, old_rate: float, new_workers: int, new_rate: float) -> float:
    """Throughput that each worker between two sizes adds, relative to what one of the smaller size had.

    1: linear speed-up; 0: none. Throughputs in any unit, ``old_rate`` above zero.
    """
    return (new_rate - old_rate) / (new_workers - old_workers) / (old_rate / old_workers)


@final
class Autoscaler:
    """Grows by ``step_workers`` while the marginal gain is above the threshold; otherwise goes back one size and stays.

    Args:
        workers: at the start.
        step_workers: added at a time.
        max_workers: no size above this is tried; None: no bound.
        threshold: least gain of a step; DLRover compares with 0.3, the engine's own default is 0.1.
        min_iters: measured iterations that a size needs. The first after a change is skipped.
    """

    def __init__(
        self,
        workers: int,
        step_workers: int = 1,
        max_workers: int | None = None,
        threshold: float = 0.3,
        min_iters: int = 10,
    ) -> None:
        for name, value in (("workers", workers), ("step_workers", step_workers), ("min_iters", min_iters)):
            check_whole(name, value, least=1)
        if max_workers is not None:
            check_whole("max_workers", max_workers, least=workers)
        check_number("threshold", threshold)
        self.workers, self.step_workers, self.max_workers = workers, step_workers, max_workers
        self.threshold, self.min_iters = threshold, min_iters
        self.rates: dict[int, float] = {}
        self.gains: dict[int, float] = {}
        self.stays = False
        self._passed: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._iterations, self._samples, self._seconds = -1, 0, 0.0

    def observe(self, samples: int, seconds: float) -> None:
        """The job has taken so long for an iteration of so many samples."""
        self._iterations += 1
        if self._iterations:
            self._samples += samples
            self._seconds += seconds

    def resized(self, workers: int) -> None:
        """So many workers there are now, whether asked for, denied or lost: measured from the beginning."""
        refused = self._passed is not None and workers <= self._passed
        self.workers = workers
        self.stays = self.stays or refused
        self._begin()

    def decide(self) -> int | None:
        """The number of workers that there should be instead; None: those there are, for now or for good."""
        if self.stays or self._iterations < self.min_iters or not self._seconds:
            return None
        self.rates[self.workers] = rate = self._samples / self._seconds
        if self._passed is not None:
            gain = marginal_gain(self._passed, self.rates[self._passed], self.workers, rate)
            self.gains[self.workers] = gain
            if gain <= self.threshold:
                self.stays = True
                return self._passed
        larger = self.workers + self.step_workers
        if self.max_workers is not None and larger > self.max_workers:
            self.stays = True
            return None
        self._passed = self.workers
        return larger
