"""Whether workers turn out to be as fast as their profiles said (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import final

from strategies.load.profiling import Curve


@final
class Drifts:
    """The last ``num_iters`` times of every worker over what its own curve says; 0 iterations: nobody is looked at.

    A profile of some seconds may have met a worker when something else slowed it. A median over many iterations does
    not feel what is slow for less than half of them.
    """

    def __init__(self, num_iters: int, ratio: float) -> None:
        self.num_iters, self.ratio = num_iters, ratio
        self._curves: dict[int, Curve] = {}
        self._seen: dict[int, list[float]] = {}

    def begin(self, measured: Mapping[int, Sequence[tuple[float, float]]]) -> None:
        """From now on; ``measured`` are (samples, seconds) of micro-batches by worker."""
        known = measured if self.num_iters else {}
        self._curves = {worker: Curve(pairs) for worker, pairs in known.items() if pairs}
        self._seen = {worker: [] for worker in self._curves}

    def tell(self, worker: int, samples: float, seconds: float) -> None:
        """A micro-batch has taken so long."""
        if worker in self._curves:
            self._seen[worker].append(seconds / self._curves[worker].seconds(samples))

    def found(self) -> bool:
        """Whether there are any who turn out to be of another speed; to be asked before every round."""
        full = [seen for seen in self._seen.values() if len(seen) >= self.num_iters]
        factors = [median(seen) for seen in full]
        for seen in full:
            seen.clear()
        return any(not 1 / self.ratio <= factor <= self.ratio for factor in factors)
