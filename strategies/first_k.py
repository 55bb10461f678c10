"""First-K: an update of the K fastest, the work of all others thrown away."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar, final

from strategies.checks import check_whole
from strategies.gated import GatedStrategy
from strategies.gates import FirstFreshGate, Gate
from strategies.protocol import Apply, Command, Compute, Drop, Started
from strategies.weights import check_lr_rule


@final
@dataclass(kw_only=True)
class FirstK(GatedStrategy):
    """The first ``k`` gradients on the current parameters make the update; later ones are dropped.

    Source: the naive control for LGC (Xu et al., INFOCOM 2021) and for backup workers. Unlike these it keeps the batch
    of every worker at B / N, so that an update stands for K / N of the global batch and, with ``batch_linear``, moves
    the parameters by that share of the rate. Decided at ``Arrived``. The samples of dropped gradients go back to the
    queue. With fewer than ``k`` live workers all that live suffice.

    Attributes:
        k: gradients per update, from 1 to the number of workers (BSP); None: three quarters of the workers, rounded up.
        requeue: False loses the samples of dropped gradients.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.weights`.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Compute, Apply, Drop})

    k: int | None = None
    requeue: bool = True
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.k is not None:
            check_whole("k", self.k, 1)
        check_lr_rule(self.lr_rule)

    def validate(self, num_workers: int) -> None:
        """So many must be able to come."""
        if self.k is not None and self.k > num_workers:
            raise ValueError(f"k={self.k}: must be at most the number of workers ({num_workers})")

    def shares(self, started: Started) -> list[int]:
        """Batches as they are."""
        self._needed = self.k or ceil(0.75 * len(started.workers))
        return super().shares(started)

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """That of backup workers; only the batches differ."""
        return FirstFreshGate(workers, self._needed, version)
