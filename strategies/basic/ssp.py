"""SSP: stale-synchronous parallel training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import BoundedGate, EachGate


@final
@dataclass(kw_only=True)
class SSP(Composition):
    """ASP in which no worker may run more than ``bound`` iterations ahead of the slowest.

    Source: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server", NeurIPS 2013.
    Worker i may start iff c_i - min_j c_j <= bound, with c the iterations it has finished. With bound 0 the updates of
    a round are merged into one, which no worker can observe and which makes SSP(0) equal BSP bit for bit.

    Attributes:
        bound: iterations; 0 is BSP, null (None) is ASP.
        data: allocation policy, ``dynamic`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

    bound: int | None = 3
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def compose(self) -> Parts:
        if self.bound is None:
            return self.make(Parts, gate=EachGate())
        if not isinstance(self.bound, int) or isinstance(self.bound, bool):
            raise ValueError(f"bound={self.bound}: must be a whole number of iterations, or null for no bound")
        if self.bound < 0:
            raise ValueError(f"bound={self.bound}: must be 0 or more (null for no bound)")
        return self.make(Parts, gate=self.make(BoundedGate))
