"""How fast workers are at equal work: an iteration is a fixed base and a time per sample (pure).

A worker with a small batch does fewer samples a second than an equal one with a large batch, since what an iteration
costs whatever its batch is spread over fewer. So speeds are compared by *pace*: seconds over (samples + c), where c is
the base as so many samples. Equal workers have one pace whatever their batches; twice as slow is twice the pace.
What is added to every iteration (a sleep, a slow link) does not shrink with the batch; a small batch then makes the
pace look worse than it is, but no other batch than the smallest would be better for such a worker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, median
from typing import final

Records = Sequence[tuple[float, float]]
"""(samples, seconds) of means over some iterations."""

LEAST_CHANGE = 1.1
"""By less than this factor a batch must not have changed for its change to tell anything."""
MOST_BASE = 19.0
"""A base is at most so many times the batch: 95 % of an iteration."""


def fit_base(records: Records) -> float | None:
    """The base in samples of the line that fits best by least squares; None where batches were about the same."""
    sizes = [samples for samples, _ in records]
    if not sizes or max(sizes) < LEAST_CHANGE * min(sizes):
        return None
    size, time_s = fmean(sizes), fmean(seconds for _, seconds in records)
    covariance = sum((samples - size) * (seconds - time_s) for samples, seconds in records)
    slope = covariance / sum((samples - size) ** 2 for samples in sizes)
    most = MOST_BASE * size
    return most if slope <= 0 else min(most, max(0.0, time_s / slope - size))


def paces(records: Records, base_samples: float) -> list[float]:
    """Seconds per sample of every record, with the base as so many samples more."""
    return [seconds / (samples + base_samples) for samples, seconds in records]


@final
class Base:
    """The base of a cluster's workers, ``samples``: the median of what each worker's own changes of size have told.

    Workers that straggle are asked only where there is nobody else, because their speed may have changed with their
    batch. Before any batch has changed it is 0: time in proportion to the batch, as AntDT assumes.
    """

    def __init__(self) -> None:
        self.samples = 0.0
        self._steady: dict[int, float] = {}
        self._straggling: dict[int, float] = {}

    def learn(self, records: Mapping[int, Records], stragglers: Collection[int]) -> None:
        """From what lies in the workers' windows now."""
        for worker, own in records.items():
            if (base := fit_base(own)) is not None:
                (self._straggling if worker in stragglers else self._steady)[worker] = base
        if told := self._steady or self._straggling:
            self.samples = median(told.values())
