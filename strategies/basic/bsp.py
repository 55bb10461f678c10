"""BSP: bulk-synchronous parallel training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AllGate
from strategies.parts.sending.tree import with_tree


@final
@dataclass(kw_only=True)
class BSP(Composition):
    """One update per round of all workers; the round takes as long as its slowest worker.

    Source: Valiant, "A bridging model for parallel computation", CACM 1990; the baseline of every system here.
    Decided at ``Arrived``: the last gradient of a round triggers one ``Apply`` of all (batch-weighted mean, in rank
    order) and the next ``Compute`` of every worker. A worker that the runtime restarts is waited for and computes the
    same samples again, so a crash does not change the parameters; one that left for good is removed from the round.

    With a tree (STAR, section IV-D2) near workers are inner nodes, where gradients are summed on their way: decided at
    ``Ready``. Departures: it has two levels, parameters come directly, and a latency is the measured time of parameters
    on their way. The paper gives neither fan-out nor waiting time.

    Attributes:
        data: allocation policy of the data service.
        tree_fanout: number of inner nodes of the tree, and of children of each; None: there is no tree.
        tree_wait_s: see :class:`strategies.parts.sending.tree.TreeGate`; None: half of the median iteration.
    """

    data: str = "dynamic"
    tree_fanout: int | None = None
    tree_wait_s: float | None = None

    def compose(self) -> Parts:
        return Parts(gate=with_tree(AllGate(), self.tree_fanout, self.tree_wait_s))
