"""DiLoCo: workers train alone for many steps; an outer optimizer applies how far they have moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from reading.ranges import Bool, PositiveFloat, PositiveInt
from strategies.local_sgd.periodic import PeriodicGate
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts


@final
@dataclass(kw_only=True)
class DiLoCo(Composition):
    """Every worker makes ``period`` steps of the inner optimizer; the outer one steps by the mean of their moves.

    Source: Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023
    (arXiv:2311.08105), algorithm 1. The inner optimizer is the workload's (there AdamW), whose state stays with the
    worker; the outer gradient is the mean of w - w_k over workers k; the outer optimizer is SGD with Nesterov momentum.
    Decided at ``Arrived``, as in :class:`strategies.local_sgd.local_sgd.LocalSGD`.

    Departures: all parameters are summed at once, not fragment by fragment (streaming DiLoCo); workers weigh as many
    as they have samples since the last update, which differ at the end of an epoch alone.

    Attributes:
        period: H, inner steps between two outer ones.
        outer_lr: learning rate of the outer optimizer.
        outer_momentum: its momentum.
        outer_nesterov: whether that is Nesterov's.
        data: allocation policy of the data service.
    """

    period: PositiveInt = 32
    outer_lr: PositiveFloat = 0.7
    outer_momentum: float = 0.9
    outer_nesterov: Bool = True
    data: str = "dynamic"

    def compose(self) -> Parts:
        return Parts(gate=self.make(PeriodicGate))
