"""The operators' rule of thumb: a straggler is who takes twice as long as the median worker."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import final

from predictors.checks import check_number, check_whole
from predictors.recent import Recent
from predictors.stragglers import Seen


@final
@dataclass(kw_only=True)
class TwiceMedian:
    """Whose recent median time is more than ``factor`` times the median of all workers' (its own included).

    No single source: a threshold on the ratio to the median is what dashboards and schedulers commonly use. A median
    does not move with the slowest, so it needs most workers to be well. Of two workers none can reach twice the median,
    which is their mean; below a factor of two one can.

    Attributes:
        factor: above 1.
        window_iters: iterations of a worker whose median is its time.
    """

    factor: float = 2.0
    window_iters: int = 10

    def __post_init__(self) -> None:
        """Check the fields."""
        check_number("factor", self.factor, above=1.0)
        check_whole("window_iters", self.window_iters, 1)
        self._recent = Recent(self.window_iters)

    def update(self, seen: Seen) -> None:
        """Into its worker's window."""
        self._recent.add(seen)

    def gone(self, worker: int) -> None:
        """Forget it."""
        self._recent.gone(worker)

    def tags(self, t: float) -> frozenset[int]:
        """Who is above the bound now."""
        seconds = self._recent.median_s
        if len(seconds) < 2:
            return frozenset()
        bound_s = self.factor * median(seconds.values())
        return frozenset(worker for worker, each_s in seconds.items() if each_s > bound_s)
