"""Asynchronous local SGD: each worker's move is an update as soon as it has made its steps.

Symbols: H steps; N updates between two of momentum; v_k the speed of worker k in steps per second.

1. Worker k makes H_k steps of the inner optimizer, from the common parameters w of then. H_k = H v_k / max v (dynamic
   local updates), so that all workers come about as often.
2. Its move is an outer gradient at once, though w may have changed meanwhile. The outer optimizer is SGD with delayed
   Nesterov momentum: each gradient counts by a factor 1 / N, momentum is applied with every N-th alone, by their mean.
3. The worker continues from the w that results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from reading.ranges import Bool, PositiveFloat, PositiveInt
from strategies.local_sgd.decoupled import DecoupledGate
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts


@final
@dataclass(kw_only=True)
class AsyncLocalSGD(Composition):
    """Nobody waits: a worker that has made its steps moves the common parameters, and goes on from them.

    Source: Liu et al., "Asynchronous Local-SGD training for language modeling", 2024 (arXiv:2401.09135), with the
    parameter c = 0 of its algorithm 3; github.com/google-deepmind/asyncdiloco. Decided at ``Arrived``: a gradient moves
    the worker's own parameters (``StepAlone``), the last one of its round triggers an ``Apply`` of that worker's alone.

    Departures: all replicas take part in the sum, with nothing, while they compute. Speeds are measured, in the last
    round of each worker. There is no grace period (``diloco`` with a quorum has one); data is shared, not in shards.

    Attributes:
        period: H, inner steps of the fastest worker.
        outer_lr: learning rate of the outer optimizer.
        outer_momentum: its momentum, of Nesterov's kind.
        momentum_every: N; the source's is the number of workers.
        dynamic_steps: whether slower workers make fewer steps.
        data: allocation policy of the data service.
    """

    period: PositiveInt = 32
    outer_lr: PositiveFloat = 0.7
    outer_momentum: float = 0.9
    momentum_every: PositiveInt = 4
    dynamic_steps: Bool = True
    data: str = "dynamic"

    def compose(self) -> Parts:
        return Parts(gate=self.make(DecoupledGate, quorum=1))
