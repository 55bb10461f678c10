"""A memoryless disturbance."""

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
class Markov(Pattern):
    """Each target alternates between disturbed and undisturbed for exponential times: a two-state Markov chain.

    After FlexRR's disrupted machine (Harlap et al., SoCC 2016), where another job takes part of the processor now and
    then: on for 20 s and off for 60 s on average, half of the host. The chain starts in its stationary distribution: a
    target is disturbed at any moment, the first included, with probability on / (on + off).

    Attributes:
        on_mean_s: mean seconds of a disturbance.
        off_mean_s: mean seconds between two disturbances.
        kind: kind of the disturbance.
        magnitude: as defined for the kind: remaining fraction (cpu, gpu, bandwidth), seconds (delay), added fraction
            (slowdown), 1 (cut, pause, kill).
        targets: ``worker:1``, ``host:*``, ``link:0``: what the kind acts on.
        name: see :class:`Pattern`.
    """

    on_mean_s: float = 20.0
    off_mean_s: float = 60.0
    kind: Kind = "cpu"
    magnitude: float = 0.5
    targets: tuple[str, ...] = ("host:*",)
    name: str = "markov"

    def __post_init__(self) -> None:
        check_number("on_mean_s", self.on_mean_s, least=0.001)
        check_number("off_mean_s", self.off_mean_s, least=0.001)
        check_fields(self.kind, self.magnitude, self.targets, self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per target and visit of the disturbed state."""
        targets = expand_targets(self.targets, cluster)
        check_expected("on_mean_s", self.on_mean_s, self.on_mean_s + self.off_mean_s, horizon_s, len(targets))
        stays = ((target, *stay) for target in targets for stay in self._stays(target, horizon_s, seed))
        return build_plan(self.name, seed, horizon_s, disturb(self.kind, self.magnitude, stays))

    def _stays(self, target: str, horizon_s: float, seed: int) -> Iterator[tuple[float, float]]:
        draws = stream(seed, self.name, target)
        on = draws.random() < self.on_mean_s / (self.on_mean_s + self.off_mean_s)
        start_s = 0.0
        while start_s < horizon_s:
            # memoryless: the rest of the first stay is distributed like a whole one
            end_s = start_s + exponential(draws) * (self.on_mean_s if on else self.off_mean_s)
            if on:
                yield start_s, end_s
            start_s, on = end_s, not on
