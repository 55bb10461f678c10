"""A disturbance that comes and goes without memory."""

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
    """Each target is disturbed and left alone in turn, for times that are exponential: a Markov chain of two states.

    After FlexRR's disrupted machine (Harlap et al., SoCC 2016), whose processor another job takes a part of now and
    then; on 20 s and off 60 s on average, half of the host. It starts in its long-run mixture: a target is disturbed at
    any moment, the first included, with probability on / (on + off).

    Attributes:
        on_mean_s: mean seconds of a disturbance.
        off_mean_s: mean seconds between two.
        kind: of the disturbance.
        magnitude: as the kind has it: fraction that is left (cpu, bandwidth), seconds (delay), fraction added
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
        """One window per target and stay in the disturbed state."""
        targets = expand_targets(self.targets, cluster)
        check_expected("on_mean_s", self.on_mean_s, self.on_mean_s + self.off_mean_s, horizon_s, len(targets))
        stays = ((target, *stay) for target in targets for stay in self._stays(target, horizon_s, seed))
        return build_plan(self.name, seed, horizon_s, disturb(self.kind, self.magnitude, stays))

    def _stays(self, target: str, horizon_s: float, seed: int) -> Iterator[tuple[float, float]]:
        draws = stream(seed, self.name, target)
        on = draws.random() < self.on_mean_s / (self.on_mean_s + self.off_mean_s)
        start_s = 0.0
        while start_s < horizon_s:
            # without memory, what is left of the first stay is as long as a whole one
            end_s = start_s + exponential(draws) * (self.on_mean_s if on else self.off_mean_s)
            if on:
                yield start_s, end_s
            start_s, on = end_s, not on
