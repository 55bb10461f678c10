"""First-K: an update from the K fastest gradients; the others are discarded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.basic.first_fresh import FirstFreshGate
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts


@final
@dataclass(kw_only=True)
class FirstK(Composition):
    """The first ``k`` gradients on the current parameters make the update; later ones are dropped.

    Source: the naive control for LGC (Xu et al., INFOCOM 2021) and for backup workers. Unlike these it keeps the batch
    of every worker at B / N, so that an update stands for K / N of the global batch and, with ``batch_linear``, moves
    the parameters by that share of the rate. Decided at ``Arrived``. The samples of dropped gradients return to the
    queue. With fewer than ``k`` live workers, those suffice.

    Attributes:
        k: gradients per update, from 1 to the number of workers (BSP); None: three quarters of the workers, rounded up.
        requeue: False loses the samples of dropped gradients.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

    k: int | None = None
    requeue: bool = True
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def compose(self) -> Parts:
        return self.make(Parts, gate=self.make(FirstFreshGate))
