"""ASP: asynchronous parallel training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import EachGate


@final
@dataclass(kw_only=True)
class ASP(Composition):
    """Every gradient is applied as it arrives, and its worker continues at once with the newest parameters.

    Source: Dean et al., "Large scale distributed deep networks", NeurIPS 2012. ``data`` distinguishes the two baselines
    of AntDT and DLRover: ``dynamic`` (ASP-DDS: fast workers draw more shards) and ``even`` (native ASP: a static part
    of every epoch per worker, and a worker that has finished its part idles).

    Attributes:
        data: ``dynamic`` or ``even``.
        lr_rule: ``batch_linear`` scales the learning rate by the worker's share of the global batch, so that N times
            more updates of 1/N of the batch move as far; ``unit`` leaves it unchanged, as native TensorFlow does;
            ``inverse`` and ``linear`` are ``batch_linear`` with a penalty for late gradients (AntDT's ADJUST_LR); the
            penalty of ``adadelay`` fades as updates are made.
    """

    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def compose(self) -> Parts:
        return self.make(Parts, gate=EachGate())
