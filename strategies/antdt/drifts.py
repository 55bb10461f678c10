"""Whether workers' speeds agree with their profiles (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import final

from strategies.antdt.profiling import Curve


@final
class Drifts:
    """Ratios of every worker's last ``num_iters`` times to its own curve; 0 iterations: no worker is checked.

    A disturbance may have slowed a worker during a profile of some seconds. A median over many iterations ignores
    whatever slows fewer than half of them.
    """

    def __init__(self, num_iters: int, ratio: float) -> None:
        self.num_iters, self.ratio = num_iters, ratio
        self._curves: dict[int, Curve] = {}
        self._seen: dict[int, list[float]] = {}

    def begin(self, measured: Mapping[int, Sequence[tuple[float, float]]]) -> None:
        """Compare with these profiles from now on; ``measured`` are (samples, seconds) of micro-batches by worker."""
        known = measured if self.num_iters else {}
        self._curves = {worker: Curve(pairs) for worker, pairs in known.items() if pairs}
        self._seen = {worker: [] for worker in self._curves}

    def tell(self, worker: int, samples: float, seconds: float) -> None:
        """Record the time of a micro-batch."""
        if worker in self._curves:
            self._seen[worker].append(seconds / self._curves[worker].seconds(samples))

    def found(self) -> bool:
        """Whether some worker's speed differs from its profile; call it before every round."""
        full = [seen for seen in self._seen.values() if len(seen) >= self.num_iters]
        factors = [median(seen) for seen in full]
        for seen in full:
            seen.clear()
        return any(not 1 / self.ratio <= factor <= self.ratio for factor in factors)
