"""Sizes that never change: nominal, by given throughputs, or enlarged where backup workers are not waited for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, final, runtime_checkable

from reading.ranges import Checked, NonNegativeInt
from strategies.parts.load.allocation import size_of, split_min_max
from strategies.protocol import Compute, Started, split_evenly


@runtime_checkable
class Load(Protocol):
    """Decides what each worker computes; it is started with the job, before the gate begins.

    Sizes may change while the job runs unless ``steady``. A policy that ``needs_rounds`` compares the times of whole
    rounds, or solves for them; others can be combined with any gate.
    """

    steady: ClassVar[bool]
    needs_rounds: ClassVar[bool]

    def order(self, worker: int) -> Compute:
        """The next Compute of ``worker``."""

    def resize(self, workers: tuple[int, ...]) -> None:
        """New sizes for these workers may hold from now on; they should sum to the global batch.

        With a gate of rounds, ``workers`` are about to get their orders together: called at the start, after a restore,
        and whenever an update lets them go; exactly once per round and with all of its members. With any other gate
        they are all current workers; it is called once as many gradients have been applied as there are workers, and
        each takes its new size with its next order. Sizes are what is *assigned*: if a worker leaves within the round,
        its samples are missing, and the update is the mean over the other samples.
        """


class SteadyLoad(ABC):
    """Abstract: sizes are split once, when the job begins; ``sizes`` are by worker, in samples.

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
class EnlargedLoad(Checked, SteadyLoad):
    """All but ``num_backup`` workers share the global batch, and the backup workers get shares of the same size.

    Source: Chen et al., "Revisiting distributed synchronous SGD", 2016: an update of the fastest holds the whole
    global batch.

    Attributes:
        num_backup: workers that are not waited for; fewer than the number of workers.
    """

    num_backup: NonNegativeInt = 1

    def validate(self, num_workers: int) -> None:
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
