"""Persistent stragglers: slow until the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import check_name, check_number, check_sleep, check_targets, delay_s, expand_targets
from injectors.plan import ON_MACHINES, ClusterShape, Disturbance, Plan, build_plan, target_of


@final
@dataclass(frozen=True, kw_only=True)
class Persistent(Pattern):
    """The chosen workers or servers are delayed from ``start_s`` to the end. Nothing is random.

    Source: AntDT section VII-A4, "Persistent Stragglers": one node, 4 s, from the start; section VII-B2 (Table III)
    scales it by an intensity between 0.1 and 0.8.

    Attributes:
        targets: ``worker:1``, ``server:0``, ``worker:*``.
        start_s: seconds since the job's start.
        sleep_s: seconds added to every iteration (every update of a server); None if ``sleep_iters`` is given.
        sleep_iters: the same as a multiple of the nominal time of an undisturbed iteration.
        intensity: 0 to 1; scales the delay.
        of_machine: True: their machines are slow, and a strategy that restarts one elsewhere gets rid of it (AntDT's
            KILL_RESTART); False: they are slow wherever they run.
        name: see :class:`Pattern`.
    """

    targets: tuple[str, ...] = ("worker:0",)
    start_s: float = 0.0
    sleep_s: float | None = 4.0
    sleep_iters: float | None = None
    intensity: float = 1.0
    of_machine: bool = True
    name: str = "persistent"

    def __post_init__(self) -> None:
        check_targets(self.targets)
        check_number("start_s", self.start_s, least=0)
        check_sleep(self.sleep_s, self.sleep_iters, self.intensity)
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per target; none when ``start_s`` lies beyond the horizon."""
        delay = delay_s(self.sleep_s, self.sleep_iters, self.intensity, cluster)
        windows = (
            Disturbance(
                start_s=self.start_s,
                end_s=horizon_s,
                target=target,
                kind="delay",
                magnitude=delay,
                of_machine=self.of_machine and target_of(target).form in ON_MACHINES,
            )
            for target in expand_targets(self.targets, cluster)
        )
        return build_plan(self.name, seed, horizon_s, windows)
