"""ASP: asynchronous parallel training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.gated import GatedStrategy
from strategies.gates import EachGate, Gate
from strategies.protocol import DATA_POLICIES, Rhythm
from strategies.weights import STALENESS_RULES, check_lr_rule


@final
@dataclass(kw_only=True)
class ASP(GatedStrategy):
    """Every gradient is applied as it arrives and its worker goes on at once with the newest parameters.

    Source: Dean et al., "Large scale distributed deep networks", NeurIPS 2012. ``data`` is what sets the two baselines
    of AntDT and DLRover apart: ``even`` (native ASP: a static part of every epoch per worker, a worker that has
    finished its part idles) and ``dynamic`` (ASP-DDS: fast workers draw more shards).

    Attributes:
        data: ``even`` or ``dynamic``.
        lr_rule: ``batch_linear`` scales the learning rate by the worker's share of the global batch, so that N times
            more updates of 1/N of the batch move as far; ``unit`` leaves it alone as native TensorFlow does;
            ``inverse`` and ``linear`` are ``batch_linear`` with a penalty for late gradients (AntDT's ADJUST_LR).
    """

    data: str = "even"
    lr_rule: str = "batch_linear"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_lr_rule(self.lr_rule)
        if self.data not in DATA_POLICIES:
            raise ValueError(f"data={self.data}: must be one of {', '.join(DATA_POLICIES)}")

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """Nobody waits."""
        return EachGate(workers)

    def rhythm(self) -> Rhythm | None:
        """Everybody may be ahead; what depends on the staleness cannot be known beforehand."""
        if self.lr_rule in STALENESS_RULES:
            return None
        return Rhythm(lr_scale=1.0 if self.lr_rule == "unit" else None, bound=None)
