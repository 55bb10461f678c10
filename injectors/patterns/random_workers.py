"""A few randomly chosen workers that are late or never answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import check_flag, check_name, check_sleep, delay_s
from injectors.patterns.picks import draw_targets
from injectors.plan import RULES, ClusterShape, Disturbance, Plan, build_plan

ENDLESS_S = RULES["delay"].most
"""Seconds; the longest delay that a plan can have, longer than any job that uses it."""


@final
@dataclass(frozen=True, kw_only=True)
class RandomWorkers(Pattern):
    """``num_workers`` workers, drawn once, are delayed in every iteration, or never answer from the first one on.

    Source: Wang et al., "Heterogeneity-aware gradient coding for straggler tolerance" (ICDCS 2019), section VI-A1:
    delays are added to s random workers of Cluster-A, up to a fault. Departure: they are drawn once per job and not
    once per iteration. A computing worker is not interrupted here, so workers drawn in one iteration would still be
    late when others are drawn in the next, and more than s would be late at a time. Average over seeds what the paper
    averages over iterations.

    Attributes:
        num_workers: number of stragglers (in the paper s, one or two).
        sleep_s: seconds added to every iteration; None if ``sleep_iters`` is given.
        sleep_iters: the same as a multiple of the nominal time of an undisturbed iteration.
        fault: True: the delay is ``ENDLESS_S``, whatever the other two say; the process keeps running.
        name: see :class:`Pattern`.
    """

    num_workers: int = 1
    sleep_s: float | None = None
    sleep_iters: float | None = 1.0
    fault: bool = False
    name: str = "random_workers"

    def __post_init__(self) -> None:
        if type(self.num_workers) is not int or self.num_workers < 0:
            raise ValueError(f"num_workers={self.num_workers}: must be a whole number, 0 or more")
        check_flag("fault", self.fault)
        check_sleep(self.sleep_s, self.sleep_iters, 1.0)
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window for each drawn worker, over the whole horizon."""
        delay = ENDLESS_S if self.fault else delay_s(self.sleep_s, self.sleep_iters, 1.0, cluster)
        windows = (
            Disturbance(start_s=0.0, end_s=horizon_s, target=target, kind="delay", magnitude=delay)
            for target in self._draw(cluster.targets("worker"), seed)
        )
        return build_plan(self.name, seed, horizon_s, windows)

    def _draw(self, workers: list[str], seed: int) -> list[str]:
        """Larger numbers extend smaller ones."""
        if self.num_workers > len(workers):
            raise ValueError(f"num_workers={self.num_workers}: there are only {len(workers)} workers to draw from")
        return draw_targets(workers, self.num_workers, seed, self.name)
