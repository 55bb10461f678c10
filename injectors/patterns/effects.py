"""The common part of patterns that only decide *when*: one kind of disturbance of one magnitude."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from injectors.patterns.fields import check_effect, check_name, check_targets
from injectors.plan import Disturbance, Kind


def check_fields(kind: Kind, magnitude: float, targets: tuple[str, ...], name: str) -> None:
    """Raise ``ValueError`` for a field that is invalid by itself or in combination."""
    check_effect(kind, magnitude)
    check_targets(targets, kind)
    check_name(name)


def disturb(kind: Kind, magnitude: float, stays: Iterable[tuple[str, float, float]]) -> Iterator[Disturbance]:
    """One window for each (target, start, end), in seconds."""
    for target, start_s, end_s in stays:
        yield Disturbance(start_s=start_s, end_s=end_s, target=target, kind=kind, magnitude=magnitude)
