"""BSP: bulk-synchronous parallel training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.composition.composition import Composition
from strategies.composition.parts import Parts
from strategies.gates import AllGate


@final
@dataclass(kw_only=True)
class BSP(Composition):
    """One update per round of all workers; the round takes as long as its slowest worker.

    Source: Valiant, "A bridging model for parallel computation", CACM 1990; the baseline of every system here.
    Decided at ``Arrived``: the last gradient of a round triggers one ``Apply`` of all (batch-weighted mean, in rank
    order) and the next ``Compute`` of every worker. A worker that the runtime restarts is waited for and computes the
    same samples again, so a crash does not change the parameters; one that left for good is removed from the round.
    """

    data: str = "dynamic"

    def compose(self) -> Parts:
        """The gate of rounds, and nothing else."""
        return Parts(gate=AllGate())
