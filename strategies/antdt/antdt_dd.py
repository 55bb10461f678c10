"""AntDT-DD: batch sizes and gradient accumulation for a dedicated cluster of unequal devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.antdt.accumulation import AccumulationLoad, AccumulationSettings
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AllGate


@final
@dataclass(kw_only=True)
class AntDTDD(AccumulationSettings, Composition):
    """One update per round of all workers; after a profile, fast devices accumulate micro-batches for the slow ones.

    Source: AntDT section VI-B, Eq. 4. Profile: every worker computes batches of ``profile_sizes``, and from the times
    come each type's curve F, its saturation point (least micro-batch) and which workers share a type. The equation is
    solved once, and from the next round on worker i computes X_i samples in C_k micro-batches. It is solved again when
    workers leave or join, and after another profile when a worker's speed turns out to differ from its profile.

    Departures: totals are per worker and not per type, since the equation often has no whole solution otherwise. The
    rounds of the profile sum to B as well: while some workers try a size, the others share the rest. Where saturated
    micro-batches cannot sum to B, the least is one sample, and the state reports it (``below_saturation``).

    Attributes:
        data: allocation policy, ``shared``, ``dynamic`` or ``even``; batch sizes differ by much.
    """

    data: str = "shared"

    def compose(self) -> Parts:
        """A gate of rounds, with batches and accumulation by device."""
        return Parts(gate=AllGate(), load=self.make(AccumulationLoad))
