"""Transient stragglers: slow for a while, then fast again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import (
    check_name,
    check_number,
    check_sleep,
    check_targets,
    count_slots,
    delay_s,
    expand_targets,
)
from injectors.patterns.streams import stream
from injectors.plan import ClusterShape, Disturbance, Plan, build_plan

OFFSETS = ("start", "uniform")


@final
@dataclass(frozen=True, kw_only=True)
class Transient(Pattern):
    """In every period, each target straggles with some probability, for a part of the period.

    Source: AntDT section VII-A4, "Transient Stragglers" (after FlexRR). The defaults are the paper's: 15 minutes of
    every 30, probability 0.3, 1.5 s of sleep; its intensity goes from 0.1 to 0.8. The expected delay of a
    worker-iteration is sleep x intensity x duration / period x probability (0.18 s with these values).

    The draws depend on nothing but the seed, the name and the target: what straggles with a smaller probability also
    straggles with a larger one, and a longer horizon continues a shorter one.

    Attributes:
        period_s: seconds.
        duration_s: seconds of a period in which a straggling target is delayed.
        probability: of straggling, drawn per period and target.
        sleep_s: seconds added to every iteration (every update of a server); None if ``sleep_iters`` is given.
        sleep_iters: the same as a multiple of the undisturbed iteration's nominal time.
        intensity: 0 to 1; scales the delay.
        offset: ``start``: the delayed part is the first of the period, as in the paper, and so the same for all that
            straggle; ``uniform``: it lies anywhere in the period, drawn per period and target.
        targets: ``worker:1``, ``server:0``, ``worker:*``.
        name: see :class:`Pattern`.
    """

    period_s: float = 1800.0
    duration_s: float = 900.0
    probability: float = 0.3
    sleep_s: float | None = 1.5
    sleep_iters: float | None = None
    intensity: float = 0.8
    offset: Literal["start", "uniform"] = "start"
    targets: tuple[str, ...] = ("worker:*",)
    name: str = "transient"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_number("period_s", self.period_s, least=0.001)
        check_number("duration_s", self.duration_s, above=0)
        if self.duration_s > self.period_s:
            raise ValueError(f"duration_s={self.duration_s}: must be at most period_s ({self.period_s})")
        check_number("probability", self.probability, least=0, most=1)
        check_sleep(self.sleep_s, self.sleep_iters, self.intensity)
        if self.offset not in OFFSETS:
            raise ValueError(f"offset={self.offset}: must be one of {', '.join(OFFSETS)}")
        check_targets(self.targets)
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per target and period in which it straggles."""
        targets = expand_targets(self.targets, cluster)
        periods = count_slots("period_s", self.period_s, horizon_s, len(targets), self.probability)
        delay = delay_s(self.sleep_s, self.sleep_iters, self.intensity, cluster)
        windows = (one for target in targets for one in self._windows(target, periods, delay, seed))
        return build_plan(self.name, seed, horizon_s, windows)

    def _windows(self, target: str, periods: int, delay: float, seed: int) -> Iterator[Disturbance]:
        # both columns are drawn whatever the fields say, so that changing one field leaves the other's draws alone
        draws = stream(seed, self.name, target).random((periods, 2))
        for period in (draws[:, 0] < self.probability).nonzero()[0].tolist():
            spare_s = self.period_s - self.duration_s if self.offset == "uniform" else 0.0
            start_s = period * self.period_s + spare_s * float(draws[period, 1])
            yield Disturbance(
                start_s=start_s, end_s=start_s + self.duration_s, target=target, kind="delay", magnitude=delay
            )
