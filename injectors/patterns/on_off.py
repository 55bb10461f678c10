"""A disturbance that is switched on and off at fixed times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.effects import check_fields, disturb
from injectors.patterns.fields import check_expected, check_number, expand_targets
from injectors.plan import ClusterShape, Kind, Plan, build_plan


@final
@dataclass(frozen=True, kw_only=True)
class OnOff(Pattern):
    """All targets are disturbed for ``on_s``, undisturbed for ``off_s``, and so on. Nothing is random.

    Source: STAR's published code limits a worker's processor to a tenth for 60 s, then lifts the limit for 60 s.

    Attributes:
        on_s: seconds with the disturbance.
        off_s: seconds without it.
        kind: kind of the disturbance.
        magnitude: as defined for the kind: remaining fraction (cpu, gpu, bandwidth), seconds (delay), added fraction
            (slowdown), 1 (cut, pause, kill).
        targets: ``worker:1``, ``host:*``, ``link:0``: what the kind acts on.
        name: see :class:`Pattern`.
    """

    on_s: float = 60.0
    off_s: float = 60.0
    kind: Kind = "cpu"
    magnitude: float = 0.1
    targets: tuple[str, ...] = ("worker:0",)
    name: str = "on_off"

    def __post_init__(self) -> None:
        check_number("on_s", self.on_s, least=0.001)
        check_number("off_s", self.off_s, least=0.001)
        check_fields(self.kind, self.magnitude, self.targets, self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per target and cycle; the first begins with the job."""
        targets = expand_targets(self.targets, cluster)
        check_expected("on_s", self.on_s, self.on_s + self.off_s, horizon_s, len(targets))
        stays = ((target, at_s, at_s + self.on_s) for at_s in self._starts(horizon_s) for target in targets)
        return build_plan(self.name, seed, horizon_s, disturb(self.kind, self.magnitude, stays))

    def _starts(self, horizon_s: float) -> Iterator[float]:
        turn = 0
        while (start_s := turn * (self.on_s + self.off_s)) < horizon_s:
            yield start_s
            turn += 1
