"""The parts of a system, by slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, final

from strategies.parts.gates.base import Gate
from strategies.parts.hooks import Deciding, Observing
from strategies.parts.load.base import Load
from strategies.parts.load.shares import EvenLoad
from strategies.parts.screens import Screen

T = TypeVar("T")


@final
@dataclass(kw_only=True)
class Parts:
    """One part for each slot, none, or (detectors, actions) any number by name.

    Attributes:
        gate: when arrived gradients are applied, and who may compute then; one may hold another (``gate.gate``).
        load: who computes how much.
        detectors: what measures nodes; other parts query them.
        schedule: when the gate changes its mode. It has the hooks ``then`` or ``settle``.
        screen: which gradients count at all.
        actions: what is done to nodes, decided in this order every ``decide_every_s`` seconds.
        decide_every_s: seconds between two such decisions; None: there are none.
        lr_rule: one of :data:`strategies.parts.weights.LR_RULES`.
        requeue: whether the samples of dropped gradients are computed again.
        named: whether the user knows the parts by their slots (``gate.bound``), and not only their settings.
    """

    gate: Gate
    load: Load = field(default_factory=EvenLoad)
    detectors: Mapping[str, Observing] = field(default_factory=dict)
    schedule: object | None = None
    screen: Screen | None = None
    actions: Mapping[str, Deciding] = field(default_factory=dict)
    decide_every_s: float | None = None
    lr_rule: str = "batch_linear"
    requeue: bool = True
    named: bool = False

    def slots(self) -> Iterator[tuple[str, object]]:
        """Every part with the name of its slot, in the order in which they receive events."""
        yield from ((f"detectors.{name}", part) for name, part in self.detectors.items())
        yield "gate", self.gate
        if isinstance(inner := getattr(self.gate, "gate", None), Gate):
            yield "gate.gate", inner
        yield "load", self.load
        yield from ((name, part) for name in ("schedule", "screen") if (part := getattr(self, name)) is not None)
        yield from ((f"actions.{name}", part) for name, part in self.actions.items())

    def having(self, hook: type[T]) -> list[T]:
        """All parts that have this hook."""
        return [part for _, part in self.slots() if isinstance(part, hook)]

    def one(self, kind: type[T]) -> T:
        """The first part of this ``kind``."""
        return self.having(kind)[0]
