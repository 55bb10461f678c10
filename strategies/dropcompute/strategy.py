"""DropCompute: synchronous training in which no worker computes for longer than a threshold.

Symbols: N workers; M micro-batches of a worker's batch; t_(n,i,m) the time of micro-batch m of worker n in iteration i,
T_(n,i) their sum, T_i the largest of these; T^c the rest of an iteration (communication); tau the threshold.

1. Algorithm 1: every worker accumulates the gradients of its micro-batches, each divided by M (``in_time``). When it
   has computed for longer than tau, it stops and goes to the all-reduce with what it has.
2. The all-reduce waits for all workers. Dropped micro-batches are lost: the update is smaller by their part.
3. Algorithm 2, once, after ``warmup_iters`` + ``profile_iters`` iterations without a threshold (``threshold``): tau is
   the threshold with the highest effective speed-up, the mean over i of (computed part of all micro-batches)
   (T_i + T^c) / (min(tau, T_i) + T^c).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import Bool, NonNegativeInt, OneOf, PositiveFloat, PositiveInt
from strategies.dropcompute.in_time import InTimeLoad, MeanOverOrdered
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AllGate


@final
@dataclass(kw_only=True)
class DropCompute(Composition):
    """One update per round of all workers, each of which begins no micro-batch after a threshold of compute time.

    Source: Giladi et al., "DropCompute: simple and more robust distributed synchronous training via compute variance
    reduction", NeurIPS 2023, and its code (github.com/paper-submissions/dropcompute); the algorithm is above. Decided
    at ``Arrived``: the last gradient of a round triggers one ``Apply`` of all, as in BSP.

    Departures: the micro-batch in hand at the threshold is completed and counts, as in the paper's code for BERT-Large;
    the search expects that (``finishes``). Latencies come to one place instead of to all workers.

    Attributes:
        micro_batches: M.
        threshold_s: tau in seconds of computing; None: found by Algorithm 2; above all times: BSP that
            accumulates.
        profile_iters: iterations of all workers for Algorithm 2.
        warmup_iters: iterations before them.
        finishes: whether the search counts the micro-batch in hand, as workers do; False: Algorithm 2 to the letter.
        divide_by: ``ordered`` divides the sum by all samples of the round, computed or not (Algorithm 1); ``computed``
            by those computed.
        requeue: True computes the samples of dropped micro-batches later (in section 5, one of three compensations).
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
    """

    micro_batches: PositiveInt = 4
    threshold_s: PositiveFloat | None = None
    profile_iters: PositiveInt = 20
    warmup_iters: NonNegativeInt = 3
    finishes: Bool = True
    divide_by: Annotated[str, OneOf("ordered", "computed")] = "ordered"
    requeue: Bool = False
    data: str = "dynamic"

    def compose(self) -> Parts:
        mean = MeanOverOrdered() if self.divide_by == "ordered" else None
        return Parts(gate=AllGate(), load=self.make(InTimeLoad), schedule=mean)
