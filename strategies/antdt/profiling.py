"""A device's time by number of samples: which sizes to measure in a running job, and the curve from them (pure)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from statistics import median
from typing import final

from strategies.parts.checks import check_whole
from strategies.protocol import split_evenly

SATURATED_FRAC = 0.1
"""A size whose time is at most this factor of the smallest size's does not saturate the device."""

Sizes = dict[int, int]


def sizes_around(total: int, num_workers: int) -> list[int]:
    """A quarter, half and all of the even share; meanwhile the other workers compute up to seven quarters of it.

    Half of the workers can try each of these at once, and the longest round takes less than twice as long as usual.
    """
    share = total // num_workers
    return sorted({max(1, share // parts) for parts in (4, 2, 1)})


def profile_rounds(
    total: int, workers: Sequence[int], sizes: Iterable[int], iters: int, warmup_iters: int
) -> list[Sizes]:
    """Batch sizes of rounds in which every worker computes every size ``iters`` times, where that is possible.

    Each round's sizes sum to ``total``, as in any other: while one group of workers tries a size, the others share the
    rest. A size is omitted if not even one worker can have it while each of the others keeps a sample. Every size comes
    once before any is repeated, so that a short disturbance of a worker spoils only a few of its times.
    ``warmup_iters`` rounds of even sizes precede.
    """
    even = dict(zip(workers, split_evenly(total, len(workers)), strict=True))
    rounds: list[Sizes] = []
    for size in sorted(set(sizes)):
        group = _group_size(total, len(workers), size)
        for first in range(0, len(workers), group) if group else ():
            trying = {workers[(first + place) % len(workers)]: size for place in range(group)}
            others = [worker for worker in workers if worker not in trying]
            rest = dict(zip(others, split_evenly(total - group * size, len(others)), strict=True))
            rounds.append({**trying, **rest})
    return [even] * warmup_iters + rounds * iters


def _group_size(total: int, num_workers: int, size: int) -> int:
    """The most workers, at most half of them, that can try ``size`` together; 0 when none can."""
    for group in range(num_workers // 2, 0, -1):
        if total - group * size >= num_workers - group:
            return group
    return 0


@final
class Curve:
    """F(b): seconds of one micro-batch of b samples, non-decreasing, from measured (samples, seconds).

    The median of every size, raised to that of smaller sizes where it is below; straight lines between sizes,
    constant below the smallest, and in proportion above the largest.
    """

    def __init__(self, measured: Iterable[tuple[float, float]]) -> None:
        by_size: dict[float, list[float]] = defaultdict(list)
        for samples, seconds in measured:
            by_size[samples].append(seconds)
        self.sizes = sorted(by_size)
        if not self.sizes:
            raise ValueError("no curve without a measurement")
        self.times_s = list(accumulate((median(by_size[size]) for size in self.sizes), max))

    def seconds(self, samples: float) -> float:
        if samples <= self.sizes[0]:
            return self.times_s[0]
        if samples >= self.sizes[-1]:
            return self.times_s[-1] * samples / self.sizes[-1]
        right = bisect_left(self.sizes, samples)
        (low, high), (early_s, late_s) = self.sizes[right - 1 : right + 1], self.times_s[right - 1 : right + 1]
        return early_s + (late_s - early_s) * (samples - low) / (high - low)

    @property
    def saturation_samples(self) -> int:
        """The largest measured size that takes at most 1.1 times as long as the smallest."""
        limit_s = self.times_s[0] * (1 + SATURATED_FRAC)
        return max(
            1, int(max(size for size, time_s in zip(self.sizes, self.times_s, strict=True) if time_s <= limit_s))
        )

    @property
    def samples_per_s(self) -> float:
        """The v of F(b) = b / v: median throughput of the sizes from the saturation point on."""
        least = self.saturation_samples
        pairs = zip(self.sizes, self.times_s, strict=True)
        return median(size / time_s for size, time_s in pairs if size >= least)


def check_sizes(name: str, sizes: object) -> None:
    """Raise ``ValueError`` unless ``sizes`` is a list of batch sizes."""
    if not isinstance(sizes, list | tuple) or not sizes:
        raise ValueError(f"{name}={sizes}: must be a list of batch sizes")
    for size in sizes:
        check_whole(name, size, 1)


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
