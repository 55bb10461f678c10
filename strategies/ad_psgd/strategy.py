"""AD-PSGD: asynchronous decentralized SGD, where a worker averages with one neighbour at a time.

Symbols: x_i the parameters of worker i, gamma the rate, g the mean gradient of a batch.

1. Worker i computes g on its x_i as of now.
2. While it computes, it draws a neighbour j at random, and both continue from their mean: x_i, x_j <- (x_i + x_j) / 2.
   This is atomic: no other average and no step changes x_i or x_j meanwhile. Worker j may compute, too.
3. When g is there, x_i <- x_i - gamma g, though averages have changed x_i since g was begun. Nobody waits for anybody.
4. So that averages that wait for each other cannot form a circle, the graph is bipartite (``graphs``): active workers
   draw, passive workers answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import NonNegativeInt, OneOf, PositiveInt
from strategies.ad_psgd.gossip import GossipGate
from strategies.ad_psgd.graphs import GRAPHS
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts


@final
@dataclass(kw_only=True)
class ADPSGD(Composition):
    """Workers step alone, and average with a random neighbour while they compute; at the end of an epoch all average.

    Source: Lian, Zhang, Zhang and Liu, "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018
    (arXiv:1710.06952); the algorithm is above. Decided at ``Arrived``: a gradient moves the worker's own parameters
    (``StepAlone``), and the ``Average`` with the neighbour follows the worker's next ``Compute``, at the same time.

    Departures: an active worker averages once per gradient, where the paper's thread does so as often as it can. One
    ``Apply`` averages all workers at the end of an epoch, when no worker has data, and after ``common_every`` steps:
    evaluations and checkpoints read these parameters. In this average a worker's share is its share of the samples
    since the last one. A worker that has not stepped since then is not drawn.

    Attributes:
        graph: who is whose neighbour: ``exponential`` or ``ring``.
        common_every: steps of a worker, in the mean over workers, between two averages of all; None: the ends of
            epochs alone.
        pair_seed: of the draws.
        data: allocation policy of the data service.
    """

    graph: Annotated[str, OneOf(*GRAPHS)] = "exponential"
    common_every: PositiveInt | None = None
    pair_seed: NonNegativeInt = 0
    data: str = "dynamic"

    def compose(self) -> Parts:
        return Parts(gate=self.make(GossipGate))
