"""SSP: stale-synchronous parallel training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.gated import GatedStrategy
from strategies.gates import BoundedGate, EachGate, Gate
from strategies.protocol import DATA_POLICIES, Rhythm
from strategies.weights import STALENESS_RULES, check_lr_rule


@final
@dataclass(kw_only=True)
class SSP(GatedStrategy):
    """ASP in which no worker may run more than ``bound`` iterations ahead of the slowest.

    Source: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server", NeurIPS 2013.
    Worker i may start iff c_i - min_j c_j <= bound, with c the iterations it has finished. With bound 0 the updates of
    a round are merged into one, which nobody can observe and which makes SSP(0) equal BSP bit for bit.

    Attributes:
        bound: iterations; 0 is BSP, null (None) is ASP.
        data: allocation policy, ``dynamic`` or ``even``.
        lr_rule: see :mod:`strategies.weights`.
    """

    bound: int | None = 3
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_lr_rule(self.lr_rule)
        if self.data not in DATA_POLICIES:
            raise ValueError(f"data={self.data}: must be one of {', '.join(DATA_POLICIES)}")
        if self.bound is not None and (not isinstance(self.bound, int) or isinstance(self.bound, bool)):
            raise ValueError(f"bound={self.bound}: must be a whole number of iterations, or null for no bound")
        if self.bound is not None and self.bound < 0:
            raise ValueError(f"bound={self.bound}: must be 0 or more (null for no bound)")

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """No bound at all is the gate of ASP."""
        return EachGate(workers) if self.bound is None else BoundedGate(workers, self.bound)

    def rhythm(self) -> Rhythm | None:
        """The gate says it all, unless the rate depends on the staleness."""
        if self.lr_rule in STALENESS_RULES:
            return None
        return Rhythm(lr_scale=1.0 if self.lr_rule == "unit" else None, bound=self.bound)
