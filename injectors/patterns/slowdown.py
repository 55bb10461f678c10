"""Short random slow-downs of single iterations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import check_name, check_number, check_targets, count_slots, expand_targets
from injectors.patterns.streams import stream
from injectors.plan import RULES, ClusterShape, Disturbance, Plan, build_plan


@final
@dataclass(frozen=True, kw_only=True)
class IterationSlowdown(Pattern):
    """In every slot, each target is slowed with some probability by U(0, f) times its iteration.

    After FlexRR's "slow worker" pattern (Harlap et al., SoCC 2016), which slows single iterations. A plan is made
    before any iteration happens, so time is divided into slots instead: with slots of one base iteration, an iteration
    meets the slot in which it begins.

    Attributes:
        slot_s: seconds per slot.
        probability: probability of a slow-down, drawn per slot and target.
        max_slowdown_frac: f; the time added is uniform between 0 and f times the iteration's own computing time.
        targets: ``worker:1``, ``server:0``, ``worker:*``.
        name: see :class:`Pattern`.
    """

    slot_s: float
    probability: float = 0.1
    max_slowdown_frac: float = 4.0
    targets: tuple[str, ...] = ("worker:*",)
    name: str = "slowdown"

    def __post_init__(self) -> None:
        check_number("slot_s", self.slot_s, least=0.001)
        check_number("probability", self.probability, least=0, most=1)
        check_number("max_slowdown_frac", self.max_slowdown_frac, least=0, most=RULES["slowdown"].most)
        check_targets(self.targets, "slowdown")
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per slowed slot and target."""
        targets = expand_targets(self.targets, cluster)
        slots = count_slots("slot_s", self.slot_s, horizon_s, len(targets), self.probability)
        windows = (one for target in targets for one in self._windows(target, slots, seed))
        return build_plan(self.name, seed, horizon_s, windows)

    def _windows(self, target: str, slots: int, seed: int) -> Iterator[Disturbance]:
        draws = stream(seed, self.name, target).random((slots, 2))
        for slot in (draws[:, 0] < self.probability).nonzero()[0].tolist():
            yield Disturbance(
                start_s=slot * self.slot_s,
                end_s=(slot + 1) * self.slot_s,
                target=target,
                kind="slowdown",
                magnitude=self.max_slowdown_frac * float(draws[slot, 1]),
            )
