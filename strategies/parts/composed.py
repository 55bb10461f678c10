"""A strategy whose parts the configuration names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates.base import Gate
from strategies.parts.hooks import Deciding, Observing
from strategies.parts.load.shares import EvenLoad, Load
from strategies.parts.screens import Screen


@final
@dataclass(kw_only=True)
class Composed(Composition):
    """Any gate with any load policy, detectors, schedule, screen and actions that fit it.

    What every system of this package does in its own file, a YAML does here: each part is named by its class and has
    its own settings. Parts that cannot work together are refused (:mod:`strategies.parts.composition.parts`).

    Attributes:
        gate: when gradients are applied, and who may compute then (``strategies.parts.gates``).
        load: who computes how much (``strategies.parts.load``); default: the nominal batches.
        detectors: by any name, what measures nodes (``strategies.parts.monitoring``); the other parts query it.
        schedule: when the gate changes its mode, of gates that have modes.
        screen: which gradients count.
        actions: by any name, what is done to nodes, in this order.
        decide_every_s: seconds between two decisions of actions and of the load policy, if they decide anything.
        lr_rule: see :mod:`strategies.parts.weights`.
        requeue: False loses the samples of dropped gradients.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
    """

    gate: Gate
    load: Load = field(default_factory=EvenLoad)
    detectors: dict[str, Observing] = field(default_factory=dict)
    schedule: object | None = None
    screen: Screen | None = None
    actions: dict[str, Deciding] = field(default_factory=dict)
    decide_every_s: float | None = None
    lr_rule: str = "batch_linear"
    requeue: bool = True
    data: str = "dynamic"

    def compose(self) -> Parts:
        return self.make(Parts, named=True)
