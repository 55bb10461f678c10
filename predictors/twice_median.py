"""The operators' rule of thumb: a straggler takes twice as long as the median worker."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Annotated, final

from predictors.recent import ByRecent
from reading.ranges import Number


@final
@dataclass(kw_only=True)
class TwiceMedian(ByRecent):
    """Tags workers whose recent median time exceeds ``factor`` times the median of all workers' medians (own included).

    No single source: a threshold on the ratio to the median is what dashboards and schedulers commonly use. A median
    is robust against the slowest, but needs most workers to be healthy. Of two workers none can reach twice the median,
    which is their mean; below a factor of two one can.

    Attributes:
        factor: above 1.
        window_iters: a worker's time is the median of this many iterations.
    """

    factor: Annotated[float, Number(above=1.0)] = 2.0

    def tags(self, t: float) -> frozenset[int]:
        """Workers above the threshold now."""
        seconds = self._recent.median_s
        if len(seconds) < 2:
            return frozenset()
        bound_s = self.factor * median(seconds.values())
        return frozenset(worker for worker, each_s in seconds.items() if each_s > bound_s)
