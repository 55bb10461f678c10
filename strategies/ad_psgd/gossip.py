"""The gate of AD-PSGD: nobody waits, and half of the workers draw a neighbour to average with as they go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from reading.ranges import NonNegativeInt, OneOf, PositiveInt
from strategies.ad_psgd.graphs import GRAPHS, passive_neighbours
from strategies.parts.gates import AloneGate
from strategies.parts.shuffled import shuffled
from strategies.protocol import Average, Command, StepAlone


@final
@dataclass(kw_only=True)
class GossipGate(AloneGate):
    """A worker steps by its gradient and computes the next one; an active worker averages with a neighbour meanwhile.

    The members' ranks are places in the graph. Until a worker has stepped since the last update of all, which comes
    when nobody finds data or ``common_every`` is reached, it averages with nobody: an update takes no moves of it.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({StepAlone, Average})
    sums_meanwhile: ClassVar[bool] = True
    waits_for_all: ClassVar[bool] = False

    graph: Annotated[str, OneOf(*GRAPHS)] = "exponential"
    common_every: PositiveInt | None = None
    pair_seed: NonNegativeInt = 0

    def waits(self, worker: int) -> bool:
        return self.common_every is not None and len(self.buffer) >= self.common_every * len(self.roster.members)

    def pair(self, worker: int) -> tuple[int, ...]:
        """The worker and the neighbour that is drawn; the same again after a rollback."""
        members = self.roster.all()
        places = passive_neighbours(self.graph, members.index(worker), len(members)) if self.steps[worker] else ()
        if not (near := [members[place] for place in places if self.steps[members[place]]]):
            return ()
        drawn, *_ = shuffled(near, self.pair_seed, self.version, worker, self.steps[worker])
        return (worker, drawn) if worker < drawn else (drawn, worker)
