"""Transient throttling: for a while only a fraction of the processor, the GPU or the link remains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import check_effect, check_name, check_targets, expand_targets
from injectors.patterns.periods import Offset, Periods
from injectors.plan import ClusterShape, Disturbance, Plan, build_plan


@final
@dataclass(frozen=True, kw_only=True)
class TransientThrottle(Pattern):
    """The windows of :class:`~injectors.patterns.transient.Transient`, with real throttling instead of a delay.

    Source: AntDT section VII-A4 for the windows (15 minutes of every 30, probability 0.3), STAR section III-D for the
    fractions. A delay stands for whatever makes a worker slow; throttling is a cause that makes it slow.

    Attributes:
        left_frac: fraction of the processor time or of the link's rate that remains, between 0 and 1.
        kind: ``cpu``, ``gpu`` or ``bandwidth``.
        period_s: seconds.
        duration_s: seconds of a period in which a straggling target is throttled.
        probability: probability of straggling, drawn per period and target.
        offset: ``start``: the throttled part is at the start of the period for all stragglers; ``uniform``: it lies
            anywhere in the period, drawn per period and target.
        targets: ``worker:1``, ``server:0``, ``host:2`` for cpu; ``worker:1``, ``device:0`` for gpu; ``link:2``,
            ``link:0>2`` for bandwidth; ``host:*``.
        draws_of: name of a pattern whose draws are used, so that the same targets straggle in the same windows in both;
            None: draws of its own.
        name: see :class:`Pattern`.
    """

    left_frac: float = 0.25
    kind: Literal["cpu", "gpu", "bandwidth"] = "cpu"
    period_s: float = 1800.0
    duration_s: float = 900.0
    probability: float = 0.3
    offset: Offset = "start"
    targets: tuple[str, ...] = ("worker:*",)
    draws_of: str | None = None
    name: str = "transient_throttle"

    def __post_init__(self) -> None:
        check_effect(self.kind, self.left_frac, kinds=("cpu", "gpu", "bandwidth"), name="left_frac")
        self._periods()
        check_targets(self.targets, self.kind)
        if self.draws_of is not None:
            check_name(self.draws_of, "draws_of")
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per target and period in which it straggles."""
        targets = expand_targets(self.targets, cluster)
        periods, key = self._periods(), self.name if self.draws_of is None else self.draws_of
        count = periods.count(horizon_s, len(targets))
        windows = (
            Disturbance(start_s=start_s, end_s=end_s, target=target, kind=self.kind, magnitude=self.left_frac)
            for target in targets
            for start_s, end_s in periods.windows(count, seed, key, target)
        )
        return build_plan(self.name, seed, horizon_s, windows)

    def _periods(self) -> Periods:
        return Periods(
            period_s=self.period_s, duration_s=self.duration_s, probability=self.probability, offset=self.offset
        )
