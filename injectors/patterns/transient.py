"""Transient stragglers: slow for a while, then fast again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import check_name, check_sleep, check_targets, delay_s, expand_targets
from injectors.patterns.periods import Offset, Periods
from injectors.plan import ClusterShape, Disturbance, Plan, build_plan


@final
@dataclass(frozen=True, kw_only=True)
class Transient(Pattern):
    """In every period, each target straggles with some probability, for part of the period.

    Source: AntDT section VII-A4, "Transient Stragglers" (after FlexRR). The defaults are the paper's: 15 minutes of
    every 30, probability 0.3, 1.5 s of sleep; its intensity goes from 0.1 to 0.8. The expected delay of a
    worker-iteration is sleep x intensity x duration / period x probability (0.18 s with these values).

    Draws depend only on the seed, the name and the target: a target that straggles at a smaller probability also
    straggles at a larger one, and a longer horizon extends a shorter one.

    Attributes:
        period_s: seconds.
        duration_s: seconds of a period in which a straggling target is delayed.
        probability: probability of straggling, drawn per period and target.
        sleep_s: seconds added to every iteration (every update of a server); None if ``sleep_iters`` is given.
        sleep_iters: the same as a multiple of the nominal time of an undisturbed iteration.
        intensity: 0 to 1; scales the delay.
        offset: ``start``: the delayed part is at the start of the period, as in the paper, and so at the same time for
            all stragglers; ``uniform``: it lies anywhere in the period, drawn per period and target.
        targets: ``worker:1``, ``server:0``, ``worker:*``.
        name: see :class:`Pattern`.
    """

    period_s: float = 1800.0
    duration_s: float = 900.0
    probability: float = 0.3
    sleep_s: float | None = 1.5
    sleep_iters: float | None = None
    intensity: float = 0.8
    offset: Offset = "start"
    targets: tuple[str, ...] = ("worker:*",)
    name: str = "transient"

    def __post_init__(self) -> None:
        self._periods()
        check_sleep(self.sleep_s, self.sleep_iters, self.intensity)
        check_targets(self.targets)
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per target and period in which it straggles."""
        targets = expand_targets(self.targets, cluster)
        periods, delay = self._periods(), delay_s(self.sleep_s, self.sleep_iters, self.intensity, cluster)
        count = periods.count(horizon_s, len(targets))
        windows = (
            Disturbance(start_s=start_s, end_s=end_s, target=target, kind="delay", magnitude=delay)
            for target in targets
            for start_s, end_s in periods.windows(count, seed, self.name, target)
        )
        return build_plan(self.name, seed, horizon_s, windows)

    def _periods(self) -> Periods:
        return Periods(
            period_s=self.period_s, duration_s=self.duration_s, probability=self.probability, offset=self.offset
        )
