"""DiLoCo: workers train alone for many steps; an outer optimizer applies how far they have moved.

Symbols: H steps between two sums; tau steps of overlap; alpha, the part of a worker's own parameters that stays.

1. Every worker k makes steps of the inner optimizer on parameters w_k of its own.
2. DiLoCo: after H steps the outer gradient is the mean of w - w_k; the outer optimizer steps w, and all go on from w.
3. Streaming DiLoCo: this is done for one fragment of the parameters at a time, another every H / ``fragments`` steps.
   The workers go on while it is summed: the sum of what they had moved tau steps ago is applied. A worker then goes on
   with alpha w_k + (1 - alpha) w in this fragment.
4. Decoupled DiLoCo: the outer step is made when ``quorum`` workers have made their H steps and ``grace_s`` seconds have
   passed, or all have. It takes the workers that are there, weighted by their samples, and these go on from w. Others
   go on with their own w_k, and w - w_k is from the w with which they began.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import Bool, NonNegativeFloat, NonNegativeInt, Number, PositiveFloat, PositiveInt
from strategies.local_sgd.decoupled import DecoupledGate
from strategies.local_sgd.periodic import PeriodicGate
from strategies.local_sgd.streaming import StreamingGate
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts


@final
@dataclass(kw_only=True)
class DiLoCo(Composition):
    """Every worker makes ``period`` steps of the inner optimizer; the outer one steps by the mean of their moves.

    Sources: Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023
    (arXiv:2311.08105), algorithm 1; Douillard et al., "Streaming DiLoCo with overlapping communication", 2025
    (arXiv:2501.18512), algorithm 2: ``fragments``, ``delay``, ``mixing``; "Decoupled DiLoCo for resilient distributed
    pre-training", 2026 (arXiv:2604.21428): ``quorum``, ``grace_s``. The inner optimizer is the workload's
    (there AdamW), whose state stays with the worker; the outer optimizer is SGD with Nesterov momentum.
    Decided at ``Arrived``, as in :class:`strategies.local_sgd.local_sgd.LocalSGD`; a fragment is summed by
    ``SumFragment``.

    Departures: workers weigh as many as they have samples since the last sum, which differ at the end of an epoch
    alone. Fragments are consecutive parts of the vector, not layers. Where fragments are summed, all workers make one
    update of all parameters at the end of an epoch and after ``common_every`` steps; evaluations and checkpoints read
    these, and a loss takes all back to the last one. The grace is of a fixed length, not adapted; a worker is weighted
    by its samples, which is the source's weight (samples times samples per step) where all have the same batch.

    Attributes:
        period: H, inner steps between two outer ones of the same parameters.
        outer_lr: learning rate of the outer optimizer.
        outer_momentum: its momentum.
        outer_nesterov: whether that is Nesterov's.
        fragments: parts of the parameters that are summed in turn; ``period`` is a multiple.
        delay: tau, inner steps from what is summed to when that is applied; less than ``period / fragments``.
        mixing: alpha, the part of a worker's own parameters that stays.
        common_every: inner steps between two updates of all parameters; None: every ``period`` steps with the settings
            of plain DiLoCo, else the ends of epochs alone.
        quorum: workers that have made their steps before an outer step, with none of the settings above; None: all.
        grace_s: seconds for which an outer step waits for further workers then.
        data: allocation policy of the data service.
    """

    period: PositiveInt = 32
    outer_lr: PositiveFloat = 0.7
    outer_momentum: float = 0.9
    outer_nesterov: Bool = True
    fragments: PositiveInt = 1
    delay: NonNegativeInt = 0
    mixing: Annotated[float, Number(0.0, most=1.0)] = 0.0
    common_every: PositiveInt | None = None
    quorum: PositiveInt | None = None
    grace_s: NonNegativeFloat = 0.0
    data: str = "dynamic"

    def compose(self) -> Parts:
        usual = {"fragments": 1, "delay": 0, "mixing": 0.0, "common_every": None}
        other = [name for name, value in usual.items() if getattr(self, name) != value]
        if self.quorum is None and self.grace_s:
            raise ValueError(f"grace_s={self.grace_s:g}: without a quorum all are waited for; set quorum")
        if self.quorum is not None and other:
            raise ValueError(f"{other[0]}={getattr(self, other[0])}: is not for updates of a quorum; leave it out")
        if self.quorum is not None:
            return Parts(gate=self.make(DecoupledGate))
        return Parts(gate=self.make(StreamingGate) if other else self.make(PeriodicGate))
