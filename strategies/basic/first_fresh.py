"""Gate ``first_fresh(K)``: the first K fresh gradients form the update, late ones are dropped (backup workers)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from reading.ranges import NonNegativeInt, PositiveInt, check_settings
from strategies.parts.gates.quorum import QuorumGate, check_most, three_quarters
from strategies.protocol import Started


@final
@dataclass(kw_only=True)
class FirstFreshGate(QuorumGate):
    """A gradient is fresh iff it was computed on the current version. A worker is never interrupted.

    With fewer members than K the gate waits for all of them: with a fixed K, as in TensorFlow's SyncReplicasOptimizer,
    the job would hang.

    Attributes:
        k: gradients per update, from 1 to the number of workers.
        num_backup: workers that are not waited for, instead of ``k``; neither: a quarter, rounded down.
    """

    drops: ClassVar[bool] = True
    logged_as: ClassVar[str] = "fresh"

    k: PositiveInt | None = None
    num_backup: NonNegativeInt | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if self.k is not None and self.num_backup is not None:
            raise ValueError(f"num_backup={self.num_backup}: k={self.k} says already how many are waited for")

    def validate(self, num_workers: int) -> None:
        check_most("k", self.k, num_workers)
        if self.num_backup is not None and self.num_backup >= num_workers:
            raise ValueError(f"num_backup={self.num_backup}: must be less than the number of workers ({num_workers})")

    def start(self, started: Started) -> None:
        """Fix K for the job, whichever workers leave or join later."""
        num_workers = len(started.workers)
        fewer = None if self.num_backup is None else num_workers - self.num_backup
        self.num_needed = self.k or fewer or three_quarters(num_workers)

    def enough(self) -> bool:
        return len(self.buffer) >= self.num_needed
