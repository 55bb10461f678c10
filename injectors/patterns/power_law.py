"""Heavy-tailed delays: mostly short, occasionally very long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from injectors.patterns.base import Pattern
from injectors.patterns.fields import (
    check_name,
    check_number,
    check_targets,
    count_slots,
    expand_targets,
    undisturbed_s,
)
from injectors.patterns.streams import stream
from injectors.plan import ClusterShape, Disturbance, Plan, build_plan


@final
@dataclass(frozen=True, kw_only=True)
class PowerLaw(Pattern):
    """In every slot each target is delayed by d0 ((1 - u)^(-1 / (alpha - 1)) - 1) iterations, u uniform, up to a cap.

    After FlexRR's power-law corner (Harlap et al., SoCC 2016), which delays each iteration of each worker. A plan is
    made before any iteration happens, so time is divided into slots instead: with slots of one base iteration, an
    iteration meets the slot in which it begins. The density falls as the delay (plus d0) to the power -alpha; the
    mean is d0 / (alpha - 2) iterations before the cap, 0.5 with the defaults, and infinite for alpha up to 2.

    Attributes:
        slot_s: seconds per slot.
        alpha: exponent of the density, more than 1.
        d0_iters: scale of the delay, in undisturbed iterations.
        cap_iters: longest delay, in undisturbed iterations.
        base_s: seconds of an undisturbed iteration; None: from the cluster.
        targets: ``worker:1``, ``server:0``, ``worker:*``.
        name: see :class:`Pattern`.
    """

    slot_s: float
    alpha: float = 4.0
    d0_iters: float = 1.0
    cap_iters: float = 20.0
    base_s: float | None = None
    targets: tuple[str, ...] = ("worker:*",)
    name: str = "power_law"

    def __post_init__(self) -> None:
        check_number("slot_s", self.slot_s, least=0.001)
        check_number("alpha", self.alpha, above=1)
        check_number("d0_iters", self.d0_iters, above=0)
        check_number("cap_iters", self.cap_iters, above=0)
        if self.base_s is not None:
            check_number("base_s", self.base_s, above=0)
        check_targets(self.targets)
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per slot and target."""
        base_s = undisturbed_s(self.base_s, cluster)
        targets = expand_targets(self.targets, cluster)
        slots = count_slots("slot_s", self.slot_s, horizon_s, len(targets), 1.0)
        windows = (one for target in targets for one in self._windows(target, slots, base_s, seed))
        return build_plan(self.name, seed, horizon_s, windows)

    def _windows(self, target: str, slots: int, base_s: float, seed: int) -> Iterator[Disturbance]:
        left = 1.0 - stream(seed, self.name, target).random(slots)
        delays = self.d0_iters * (left ** (-1.0 / (self.alpha - 1.0)) - 1.0)
        for slot, delay_iters in enumerate(np.minimum(delays, self.cap_iters).tolist()):
            yield Disturbance(
                start_s=slot * self.slot_s,
                end_s=(slot + 1) * self.slot_s,
                target=target,
                kind="delay",
                magnitude=delay_iters * base_s,
            )
