"""Throttling: a constant fraction of the processor, the GPU or the link remains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import check_effect, check_name, check_number, check_targets
from injectors.patterns.picks import check_pick, pick_targets
from injectors.plan import ON_MACHINES, ClusterShape, Disturbance, Plan, build_plan, target_of


@final
@dataclass(frozen=True, kw_only=True)
class Throttle(Pattern):
    """The chosen targets keep a fraction of their processor time, of their GPU's time, or of their link's rate.

    Sources: STAR section III-D throttles one worker to 0.75, 0.20, 0.10 or 0.05 of its processor, or to 0.75, 0.25 or
    0.10 of its bandwidth; DLRover section 6.2 gives a random worker or server a quarter of its cores (``pick``).

    Attributes:
        left_frac: remaining fraction, between 0 and 1.
        kind: ``cpu``, ``gpu`` or ``bandwidth``.
        targets: ``worker:1``, ``server:0``, ``host:2`` for cpu; ``worker:1``, ``host:2``, ``device:0`` for gpu;
            ``link:2``, ``link:0>2`` for bandwidth; ``host:*``.
        start_s: seconds since the job's start.
        duration_s: seconds; None: to the end.
        of_machine: True: a strategy that restarts a throttled worker or server elsewhere gets rid of the throttling.
            Has no meaning for hosts and links.
        pick: number of targets, drawn with the seed; None: all of them.
        name: see :class:`Pattern`.
    """

    left_frac: float = 0.25
    kind: Literal["cpu", "gpu", "bandwidth"] = "cpu"
    targets: tuple[str, ...] = ("worker:0",)
    start_s: float = 0.0
    duration_s: float | None = None
    of_machine: bool = True
    pick: int | None = None
    name: str = "throttle"

    def __post_init__(self) -> None:
        check_effect(self.kind, self.left_frac, kinds=("cpu", "gpu", "bandwidth"), name="left_frac")
        check_targets(self.targets, self.kind)
        check_number("start_s", self.start_s, least=0)
        if self.duration_s is not None:
            check_number("duration_s", self.duration_s, least=0.001)
        check_pick(self.pick)
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per target; none when ``start_s`` lies beyond the horizon."""
        end_s = horizon_s if self.duration_s is None else self.start_s + self.duration_s
        windows = (
            Disturbance(
                start_s=self.start_s,
                end_s=end_s,
                target=target,
                kind=self.kind,
                magnitude=self.left_frac,
                of_machine=self.of_machine and target_of(target).form in ON_MACHINES,
            )
            for target in pick_targets(self.targets, self.pick, cluster, seed, self.name)
        )
        return build_plan(self.name, seed, horizon_s, windows)
