"""Speeds at equal work: an iteration is a fixed base and a time per sample (pure).

A worker with a small batch computes fewer samples per second than an equal one with a large batch, because the fixed
cost of an iteration is spread over fewer. So speeds are compared by *pace*: seconds over (samples + c), where c is
the base as a number of samples. Equal workers have equal paces whatever their batches; twice as slow is twice the pace.
A constant addition to every iteration (a sleep, a slow link) does not shrink with the batch; a small batch then makes
the pace look worse than it is, but the smallest batch is the best one for such a worker anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, median
from typing import final

Records = Sequence[tuple[float, float]]
"""(samples, seconds): means over some iterations."""

LEAST_CHANGE = 1.1
"""Least factor by which a batch must have changed to be used in a fit."""
MOST_BASE = 19.0
"""Largest base as a multiple of the batch: 95 % of an iteration."""


def fit_base(records: Records) -> float | None:
    """The base in samples of the line fitted by least squares; None where batches were about equal."""
    sizes = [samples for samples, _ in records]
    if not sizes or max(sizes) < LEAST_CHANGE * min(sizes):
        return None
    size, time_s = fmean(sizes), fmean(seconds for _, seconds in records)
    covariance = sum((samples - size) * (seconds - time_s) for samples, seconds in records)
    slope = covariance / sum((samples - size) ** 2 for samples in sizes)
    most = MOST_BASE * size
    return most if slope <= 0 else min(most, max(0.0, time_s / slope - size))


def paces(records: Records, base_samples: float) -> list[float]:
    """Seconds per sample of every record, with the base counted as additional samples."""
    return [seconds / (samples + base_samples) for samples, seconds in records]


@final
class Base:
    """Estimates the base of a cluster's workers, ``samples``: the median of fits to each worker's own changes of size.

    Stragglers are used only if there are no other workers, because their speed may have changed with their batch.
    Before any batch has changed the base is 0: time in proportion to the batch, as AntDT assumes.
    """

    def __init__(self) -> None:
        self.samples = 0.0
        self._steady: dict[int, float] = {}
        self._straggling: dict[int, float] = {}

    def learn(self, records: Mapping[int, Records], stragglers: Collection[int]) -> None:
        """Fit the base to the records in the workers' windows."""
        for worker, own in records.items():
            if (base := fit_base(own)) is not None:
                (self._straggling if worker in stragglers else self._steady)[worker] = base
        if told := self._steady or self._straggling:
            self.samples = median(told.values())
