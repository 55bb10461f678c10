"""Batches within bounds that every worker has, solved before each round (LB-BSP; pure)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from reading.ranges import PositiveInt, check_settings, check_whole
from strategies.parts.load.allocation import check_batch_bounds, extremes, relax, samples_of_round, size_of
from strategies.protocol import Compute, Started


@dataclass(kw_only=True)
class BoundSettings:
    """The bounds of batches.

    Attributes:
        min_batch_samples: smallest batch; at least 1, because a worker without samples cannot be observed.
        max_batch_samples: largest batch (memory); None: no bound.
    """

    min_batch_samples: PositiveInt = 1
    max_batch_samples: int | None = None


@dataclass(kw_only=True)
class BoundedLoad(BoundSettings, ABC):
    """Abstract: ``_sizes`` are the workers' samples, and ``_extremes`` are for the log."""

    steady: ClassVar[bool] = False

    @final
    def __post_init__(self) -> None:
        check_settings(self)
        if self.max_batch_samples is not None:
            check_whole("max_batch_samples", self.max_batch_samples, self.min_batch_samples)

    @final
    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        check_batch_bounds(num_workers, global_batch_samples, self.min_batch_samples, self.max_batch_samples)

    @abstractmethod
    def resize(self, workers: tuple[int, ...]) -> None:
        """Solve ``_sizes`` for these workers."""

    def _begin(self, started: Started) -> None:
        self._total = sum(started.batch_samples)
        self._sizes = dict(zip(started.workers, started.batch_samples, strict=True))
        self._extremes = extremes(self._sizes, started.workers)

    def _bounds(self, num_workers: int) -> tuple[int, list[int], Sequence[int | None]]:
        """Samples of a round, and the bounds of each worker there; beyond the settings if these cannot be kept."""
        total = samples_of_round(self._total, num_workers)
        return total, *relax(total, [self.min_batch_samples] * num_workers, [self.max_batch_samples] * num_workers)

    @final
    def order(self, worker: int) -> Compute:
        return Compute(worker=worker, num_samples=size_of(self._sizes, worker))
