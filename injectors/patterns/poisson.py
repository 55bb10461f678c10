"""Disturbances that strike at random times, such as kills and pauses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.effects import check_fields, disturb
from injectors.patterns.fields import check_expected, check_number, expand_targets
from injectors.patterns.streams import exponential, stream
from injectors.plan import ClusterShape, Kind, Plan, build_plan


@final
@dataclass(frozen=True, kw_only=True)
class Poisson(Pattern):
    """Each target is struck by a Poisson process whose clock is paused during a disturbance.

    So windows never overlap, and every kill finds a live process: an incarnation lives for an exponential time of mean
    ``mean_s``, and the next one is scheduled ``duration_s`` after its end. The usual model of failure and repair.

    Attributes:
        mean_s: mean seconds from the end of a disturbance (or the job's start) to the next one.
        duration_s: seconds that a disturbance lasts; for a kill, the scheduling delay of the next incarnation.
        kind: kind of the disturbance.
        magnitude: as defined for the kind: 1 (kill, pause, cut), remaining fraction (cpu, gpu, bandwidth), seconds
            (delay), added fraction (slowdown).
        targets: ``worker:1``, ``host:*``, ``link:0``: what the kind acts on.
        name: see :class:`Pattern`.
    """

    mean_s: float = 600.0
    duration_s: float = 2.0
    kind: Kind = "kill"
    magnitude: float = 1.0
    targets: tuple[str, ...] = ("worker:*",)
    name: str = "poisson"

    def __post_init__(self) -> None:
        check_number("mean_s", self.mean_s, least=0.001)
        check_number("duration_s", self.duration_s, least=0.001)
        check_fields(self.kind, self.magnitude, self.targets, self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per target and strike."""
        targets = expand_targets(self.targets, cluster)
        check_expected("mean_s", self.mean_s, self.mean_s + self.duration_s, horizon_s, len(targets))
        stays = (
            (target, at_s, at_s + self.duration_s)
            for target in targets
            for at_s in self._strikes(target, horizon_s, seed)
        )
        return build_plan(self.name, seed, horizon_s, disturb(self.kind, self.magnitude, stays))

    def _strikes(self, target: str, horizon_s: float, seed: int) -> Iterator[float]:
        draws = stream(seed, self.name, target)
        start_s = exponential(draws) * self.mean_s
        while start_s < horizon_s:
            yield start_s
            start_s += self.duration_s + exponential(draws) * self.mean_s
