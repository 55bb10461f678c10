"""SGP: stochastic gradient push, where parameters go one way between two workers, with a weight.

Symbols: x_i the parameters of worker i, w_i their weight, 1 at first; gamma the rate; n workers.

1. Worker i computes the mean gradient g of a batch at the de-biased parameters z_i = x_i / w_i.
2. x_i <- x_i - gamma g, by the worker's own optimizer.
3. In iteration k it sends half of x_i and of w_i to the worker 2^(k mod (floor(log2(n - 1)) + 1)) places on in a
   circle, and keeps the other halves.
4. It waits for the halves that another worker sends it in this iteration, and adds them. So the sums of all x_i and of
   all w_i change by steps alone. With overlap (tau-OSGP) it waits for the halves of iteration k - tau, and adds all
   that have come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from reading.ranges import NonNegativeInt, PositiveInt
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.sgp.pushing import PushGate


@final
@dataclass(kw_only=True)
class SGP(Composition):
    """Workers step alone, and send half of their parameters on; at the end of an epoch all average.

    Source: Assran, Loizou, Ballas and Rabbat, "Stochastic gradient push for distributed deep learning", ICML 2019
    (arXiv:1811.10792); the algorithm is above. Decided at ``Arrived``: a gradient moves the worker's own parameters
    (``StepAlone``), a half leaves (``PushHalf``), and what the worker and the half's target wait for is added.

    Departures: a worker sends its half before it computes on, also with overlap, which hides halves that come alone.
    One ``Apply`` makes the parameters of all workers the sum of all x_i over n, and their weights 1, at the end of an
    epoch, when no worker has data, and after ``common_every`` steps: evaluations and checkpoints read these parameters.
    All halves that are sent are added before it, and none is sent after the last of ``common_every`` steps. Iterations
    are counted from 0 after each.

    Attributes:
        overlap_iters: tau, iterations by which a half may be late before its target waits for it; 0: SGP.
        common_every: steps of every worker between two averages of all; None: the ends of epochs alone.
        data: allocation policy of the data service.
    """

    overlap_iters: NonNegativeInt = 0
    common_every: PositiveInt | None = None
    data: str = "dynamic"

    def compose(self) -> Parts:
        return Parts(gate=self.make(PushGate))
