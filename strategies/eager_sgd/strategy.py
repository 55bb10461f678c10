"""Eager SGD: the sum of a round waits for its initiator alone, and every worker contributes what it has by then.

Symbols: N workers; w_k the parameters after k sums; G_i(w) the mean gradient of worker i's batch on w; S_i its send
buffer, at first 0; eta the learning rate.

1. Worker i computes G_i on the newest parameters and adds it to S_i: it has *arrived* at round k if these were w_k.
2. The sum of round k begins when its initiator has arrived (``initiated``): with ``solo`` the first worker, with
   ``majority`` a worker that all draw from a common seed, so that on average half of the others have arrived.
3. All replicas take part, also those that still compute: w_{k+1} = w_k - eta / N (sum of all S_i), and every S_i that
   was summed becomes 0. A worker that has not arrived contributes what S_i has: nothing, or late gradients.
4. A worker that has arrived waits for the sum, and goes on with w_{k+1}. A gradient on older parameters is late: it
   stays in S_i until the next sum, and its worker goes on with the newest parameters at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import NonNegativeInt, OneOf, PositiveInt
from strategies.eager_sgd.initiated import InitiatedGate
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts


@final
@dataclass(kw_only=True)
class EagerSGD(Composition):
    """A sum begins with its initiator's gradient, and includes what the others have computed by then.

    Source: Li et al., "Taming unbalanced training workloads in deep learning with partial collective operations", PPoPP
    2020 (arXiv:1908.04207), and its code (github.com/Shigangli/eager-SGD); the algorithm is above. Decided at
    ``Arrived``: the initiator's gradient triggers one ``Apply`` of all that have arrived since the last one.

    Departures: a late worker skips the rounds that it has missed, where each process of the source counts its own. All
    replicas apply all sums, so their parameters stay equal and are never averaged. Division by N is the rate's factor
    (``lr_rule=batch_linear``): with momentum the rate of the whole step is smaller, and not one gradient.

    Attributes:
        mode: ``solo``: the first worker begins the sum; ``majority``: a worker that is drawn for the round.
        seed: of these draws.
        sync_every: every so many sums one waits for all workers, which have computed on its parameters; 1: BSP;
            None: never.
        data: allocation policy of the data service.
    """

    mode: Annotated[str, OneOf("solo", "majority")] = "majority"
    seed: NonNegativeInt = 0
    sync_every: PositiveInt | None = None
    data: str = "dynamic"

    def compose(self) -> Parts:
        return Parts(gate=self.make(InitiatedGate))
