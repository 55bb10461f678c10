"""BSP: bulk-synchronous parallel training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from strategies.gated import GatedStrategy
from strategies.gates import AllGate, Gate
from strategies.protocol import Rhythm


@final
@dataclass(kw_only=True)
class BSP(GatedStrategy):
    """One update per round of all workers; the round takes as long as its slowest worker.

    Source: Valiant, "A bridging model for parallel computation", CACM 1990; the baseline of every system here.
    Decided at ``Arrived``: the last gradient of a round triggers one ``Apply`` of all (batch-weighted mean, in rank
    order) and the next ``Compute`` of everybody. A worker that the runtime restarts is waited for and computes the
    same samples again, so a crash does not change the parameters; one that left for good leaves the round.
    """

    topologies: ClassVar[frozenset[str]] = frozenset({"ps", "allreduce"})

    data: str = "dynamic"

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """Everybody waits for everybody."""
        return AllGate(workers)

    def rhythm(self) -> Rhythm:
        """Nobody is ahead."""
        return Rhythm(bound=0)
