"""Post-local SGD: BSP first, local SGD then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import Number, PositiveInt
from strategies.local_sgd.periodic import PeriodicGate
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts


@final
@dataclass(kw_only=True)
class PostLocalSGD(Composition):
    """One update of all gradients per round, as in BSP, for ``bsp_frac`` of the samples; then local SGD.

    Source: Lin, Stich, Patel and Jaggi, "Don't use large mini-batches, use local SGD", ICLR 2020, equation 2: H_t is 1
    until t', then H. t' is there the first decay of the learning rate, half of the epochs for CIFAR-10. Decided at
    ``Arrived``, as in :class:`strategies.local_sgd.local_sgd.LocalSGD`; workers take the optimizer's state of the first
    phase along, and each keeps its own then (local momentum).

    Attributes:
        bsp_frac: part of the job's samples that is trained as in BSP.
        period: H, own steps between two averages in the second phase.
        data: allocation policy of the data service.
    """

    bsp_frac: Annotated[float, Number(0.0, most=1.0)] = 0.5
    period: PositiveInt = 16
    data: str = "dynamic"

    def compose(self) -> Parts:
        return Parts(gate=self.make(PeriodicGate))
