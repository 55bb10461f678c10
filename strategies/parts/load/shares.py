"""Sizes that never change: nominal, by given throughputs, or enlarged where backup workers are not waited for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.parts.checks import NonNegativeInt, check_settings
from strategies.parts.load.allocation import size_of, split_min_max
from strategies.protocol import Compute, Started, split_evenly


class SteadyLoad(ABC):
    """Abstract: sizes are split once, when the job begins; ``sizes`` are those of the workers, in samples.

    A worker that joins later with a new number computes as much as most others, on top of the global batch.
    """

    steady: ClassVar[bool] = True
    needs_rounds: ClassVar[bool] = False

    @abstractmethod
    def split(self, started: Started) -> Sequence[int]:
        """Samples per Compute of each worker, by rank."""

    @final
    def start(self, started: Started) -> None:
        self.sizes = dict(zip(started.workers, self.split(started), strict=True))
        self._orders = {worker: Compute(worker=worker, num_samples=size) for worker, size in self.sizes.items()}

    @final
    def resize(self, workers: tuple[int, ...]) -> None:
        """Keep the sizes: they never change."""
        return None

    @final
    def order(self, worker: int) -> Compute:
        return self._orders.get(worker) or Compute(worker=worker, num_samples=size_of(self.sizes, worker))


@final
@dataclass(kw_only=True)
class EvenLoad(SteadyLoad):
    """Every worker computes its nominal batch, an even share of the global batch."""

    def split(self, started: Started) -> Sequence[int]:
        """The nominal batches, unchanged."""
        return started.batch_samples


@final
@dataclass(kw_only=True)
class ThroughputLoad(SteadyLoad):
    """Shares of the global batch in proportion to ``throughputs`` that are known beforehand, at least one sample each.

    Attributes:
        throughputs: of each worker by rank, in any unit.
    """

    throughputs: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.throughputs or not all(map(is_speed, self.throughputs)):
            raise ValueError(f"throughputs={list(self.throughputs)}: must be a positive number for each worker")

    def validate(self, num_workers: int) -> None:
        """Raise ``ValueError`` unless there is one throughput for each worker."""
        if len(self.throughputs) != num_workers:
            raise ValueError(
                f"throughputs={list(self.throughputs)}: must be one number for each of the {num_workers} workers"
            )

    def split(self, started: Started) -> Sequence[int]:
        """Split by throughput, so that the last worker finishes as early as possible."""
        count = len(self.throughputs)
        return split_min_max(sum(started.batch_samples), self.throughputs, [1] * count, [None] * count)


@final
@dataclass(kw_only=True)
class EnlargedLoad(SteadyLoad):
    """All but ``num_backup`` workers share the global batch, and the backup workers get shares of the same size.

    Source: Chen et al., "Revisiting distributed synchronous SGD", 2016: an update of the fastest holds the whole
    global batch.

    Attributes:
        num_backup: workers that are not waited for; fewer than the number of workers.
    """

    num_backup: NonNegativeInt = 1

    def __post_init__(self) -> None:
        check_settings(self)

    def validate(self, num_workers: int) -> None:
        """Raise ``ValueError`` unless at least one worker is waited for."""
        if self.num_backup >= num_workers:
            raise ValueError(f"num_backup={self.num_backup}: must be less than the number of workers ({num_workers})")

    def split(self, started: Started) -> Sequence[int]:
        """B / (N - num_backup) samples each."""
        needed = len(started.workers) - self.num_backup
        split = split_evenly(sum(started.batch_samples), needed)
        return [split[rank % needed] for rank in range(len(started.workers))]


def is_speed(value: object) -> bool:
    """Whether ``value`` is a positive and finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
