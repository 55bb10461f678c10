"""Backup workers: synchronous training that waits only for the fastest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.basic.first_fresh import FirstFreshGate
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.load.shares import EnlargedLoad, EvenLoad


@final
@dataclass(kw_only=True)
class BackupWorkers(Composition):
    """The first N - ``num_backup`` fresh gradients of N workers form the update; later ones are dropped.

    Source: Chen et al., "Revisiting distributed synchronous SGD", 2016 (TensorFlow's SyncReplicasOptimizer), as AntDT
    runs it (baseline "BW"): the samples of a dropped gradient return to the tail of the queue. The global batch
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
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
    """

    num_backup: int = 1
    enlarge: bool = True
    requeue: bool = True
    data: str = "dynamic"

    def compose(self) -> Parts:
        load = self.make(EnlargedLoad) if self.enlarge else EvenLoad()
        return self.make(Parts, gate=self.make(FirstFreshGate), load=load)
