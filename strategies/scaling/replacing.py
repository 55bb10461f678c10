"""Workers that stay slow are replaced: a new one is launched first, and the old one leaves when it has joined (pure).

After Or, Zhang and Freedman, "Resource elasticity in distributed deep learning", MLSys 2020.
"""

from __future__ import annotations

from collections.abc import Collection
from statistics import median
from typing import NamedTuple, final

from strategies.checks import check_number


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

    def slow(self) -> list[int]:
        """All that are slow, the slowest first."""
        found = [worker for worker, average in self.average.items() if average < self.threshold]
        return sorted(found, key=lambda worker: (self.average[worker], worker))


class Swap(NamedTuple):
    """Which workers to launch a replacement for, and which to retire now."""

    launch: tuple[int, ...] = ()
    retire: tuple[int, ...] = ()


@final
class Replacements:
    """Which old worker each new one is for; whoever carries a launch out names the new worker in ``launched``."""

    def __init__(self) -> None:
        self._asked: set[int] = set()
        self._old: dict[int, int] = {}

    def begin(self, slow: Collection[int]) -> Swap:
        """Of these workers the ones whose replacement is not on its way already."""
        busy = self._asked | set(self._old.values()) | set(self._old)
        new = tuple(worker for worker in slow if worker not in busy)
        self._asked |= set(new)
        return Swap(launch=new)

    def launched(self, old: int, new: int) -> None:
        """``new`` has been asked for in the place of ``old``."""
        self._asked.discard(old)
        self._old[new] = old

    def joined(self, new: int) -> Swap:
        """A worker is there: if it replaces one, that one is to leave."""
        old = self._old.pop(new, None)
        return Swap() if old is None else Swap(retire=(old,))

    def denied(self, new: int) -> None:
        """It does not come: the old one stays, and may be replaced later."""
        self._old.pop(new, None)

    def lost(self, worker: int) -> None:
        """A worker is gone for good: an old one needs not leave any more, a new one does not come."""
        self._asked.discard(worker)
        self._old = {new: old for new, old in self._old.items() if worker not in (new, old)}
