"""Backup workers: synchronous training that waits only for the fastest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from strategies.gated import GatedStrategy
from strategies.gates import FirstFreshGate, Gate
from strategies.protocol import Apply, Command, Compute, Drop, Started
from strategies.weights import split_evenly


@final
@dataclass(kw_only=True)
class BackupWorkers(GatedStrategy):
    """Of N workers, the first N - ``num_backup`` fresh gradients form the update; later ones are dropped.

    Source: Chen et al., "Revisiting distributed synchronous SGD", 2016 (TensorFlow's SyncReplicasOptimizer), as AntDT
    runs it (baseline "BW"): the samples of a dropped gradient go back to the tail of the queue. The global batch
    belongs to the workers waited for, so each computes B / (N - num_backup) samples.

    Departures from TensorFlow: freshness is tested for the whole gradient and not per variable, and a worker
    contributes at most one batch to an update (token queues let it deliver several). With fewer live workers than
    needed, all that live suffice.

    AntDT's times (section VII-B1: with a slow server longer than BSP's) fit the other reading, in which a worker's
    batch stays B / N and dropping makes updates smaller and more: ``enlarge=False``.

    Attributes:
        num_backup: workers that are not waited for; fewer than the number of workers. 0 is BSP.
        enlarge: False leaves B / N samples to each, and N - ``num_backup`` of these to an update.
        requeue: False loses the samples of dropped gradients, as in the original.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Compute, Apply, Drop})

    num_backup: int = 1
    enlarge: bool = True
    requeue: bool = True
    data: str = "dynamic"

    def __post_init__(self) -> None:
        """Check the fields."""
        if not isinstance(self.num_backup, int) or isinstance(self.num_backup, bool) or self.num_backup < 0:
            raise ValueError(f"num_backup={self.num_backup}: must be a whole number, 0 or more")

    def validate(self, num_workers: int) -> None:
        """At least one worker must be waited for."""
        if self.num_backup >= num_workers:
            raise ValueError(f"num_backup={self.num_backup}: must be less than the number of workers ({num_workers})")

    def shares(self, started: Started) -> list[int]:
        """The global batch split among those waited for; the backups get the same shares again."""
        self._needed = needed = len(started.workers) - self.num_backup
        if not self.enlarge:
            return list(started.batch_samples)
        split = split_evenly(sum(started.batch_samples), needed)
        return [split[i % needed] for i in range(len(started.workers))]

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """The first N - num_backup fresh gradients."""
        return FirstFreshGate(workers, self._needed, version)
