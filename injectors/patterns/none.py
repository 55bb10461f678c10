"""No stragglers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import check_name
from injectors.plan import ClusterShape, Plan, build_plan


@final
@dataclass(frozen=True, kw_only=True)
class NoStragglers(Pattern):
    """No disturbance: the reference that every slow-down is measured against."""

    name: str = "none"

    def __post_init__(self) -> None:
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        return build_plan(self.name, seed, horizon_s, ())
