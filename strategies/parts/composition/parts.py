"""The parts of a system, by slot, and combinations that do not work together: refused with one line, before a job."""

# mypy: disable-error-code="type-abstract"
# parts are looked up by interfaces, which are never instantiated

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, final

from strategies.parts.gates import EachGate
from strategies.parts.gates.base import Dividing, Gate
from strategies.parts.hooks import Deciding, Following, Meeting, Observing, Screen, Settling
from strategies.parts.load.shares import EvenLoad, Load

OWN = __name__.removesuffix("parts.composition.parts")
"""Prefix of our modules' names: longer than ``strategies.`` if the package is installed."""


def check_fit(parts: Parts) -> None:
    """Raise ``ValueError`` naming a slot whose part does not belong there, or does not fit another part."""
    check_slots(parts)
    check_looks(parts)
    gate, load = type(parts.gate).__name__, type(parts.load).__name__
    if parts.load.needs_rounds and not parts.gate.rounds:
        raise ValueError(
            f"load={load}: compares the workers of a round, and {gate} has none; take the gate AllGate, or another load"
        )
    if isinstance(parts.gate, Dividing) and not parts.load.steady:
        raise ValueError(f"load={load}: changes batches, which {gate} divides into parts; take the load EvenLoad")
    if parts.screen is not None and not isinstance(parts.gate, EachGate):
        screen = type(parts.screen).__name__
        raise ValueError(
            f"screen={screen}: judges every gradient by itself, and {gate} does not; take the gate EachGate"
        )
    check_decisions(parts)


def check_slots(parts: Parts) -> None:
    """Raise ``ValueError`` unless every slot holds a part of its kind."""
    kinds: dict[str, tuple[type, ...]] = {
        "gate": (Gate,),
        "load": (Load,),
        "screen": (Screen,),
        "schedule": (Following, Settling),
        "detectors": (Observing,),
        "actions": (Deciding,),
    }
    for name in ("detectors", "actions"):
        if not isinstance(getattr(parts, name), Mapping):
            raise ValueError(f"{name}={getattr(parts, name)}: must be parts by name")
    for name, part in parts.slots():
        slot = name.partition(".")[0]
        if not isinstance(part, kinds[slot]) or (slot in ("detectors", "actions") and isinstance(part, Load)):
            raise ValueError(f"{name}={_name_of(part)}: is not a part for {slot}")


def check_looks(parts: Parts) -> None:
    """Raise ``ValueError`` unless every part that another queries is there, and every detector is queried.

    One that measures updates has a use without that: the record holds what it measured.
    """
    seen = list[object]()
    for name, part in parts.slots():
        for kind in part.looks_at if isinstance(part, Meeting) else ():
            found: list[object] = parts.having(kind)
            if not found:
                raise ValueError(
                    f"{name}={_name_of(part)}: looks at a {kind.__name__}, and neither gate nor detectors is one"
                )
            seen.append(found[0])
    for name, part in parts.detectors.items():
        if not any(part is other for other in seen) and not getattr(part, "measures", False):
            raise ValueError(f"detectors.{name}={_name_of(part)}: nothing looks at it; leave it out")


def check_decisions(parts: Parts) -> None:
    """Raise ``ValueError`` unless ``decide_every_s`` is set exactly where some part decides."""
    deciding = parts.having(Deciding)
    if deciding and parts.decide_every_s is None:
        raise ValueError(f"decide_every_s=null: must be the seconds between two decisions of {_name_of(deciding[0])}")
    if not deciding and parts.decide_every_s is not None:
        raise ValueError(f"decide_every_s={parts.decide_every_s}: there is nothing to decide; set actions, or null")


def _name_of(part: object) -> str:
    """The class name of a part, anything else as it was written."""
    return type(part).__name__ if type(part).__module__.startswith(OWN) else str(part)


T = TypeVar("T")


@dataclass(kw_only=True)
class Slots:
    """One part for each slot, none, or (detectors, actions) any number by name.

    Attributes:
        gate: when arrived gradients are applied, and who may compute then (``strategies.parts.gates``); one may hold
            another (``gate.gate``).
        load: the workers' numbers of samples (``strategies.parts.load``); default: the nominal batches.
        detectors: measure nodes (``strategies.parts.monitoring``); other parts query them.
        schedule: when the gate changes its mode, of gates that have modes. It has the hooks ``then`` or ``settle``.
        screen: which gradients count at all.
        actions: on nodes, decided in this order every ``decide_every_s`` seconds.
        decide_every_s: seconds between two decisions of actions and of the load, if they decide anything; None: there
            are none.
        lr_rule: one of :data:`strategies.parts.weights.LR_RULES`.
        requeue: whether the samples of dropped gradients are computed again.
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


@final
@dataclass(kw_only=True)
class Parts(Slots):
    """The parts of a system.

    Attributes:
        named: whether the user knows the parts by their slots (``gate.bound``), and not only their settings.
    """

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
