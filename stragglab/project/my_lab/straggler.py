"""A straggler pattern: workers are slow in turns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, takewhile

from stragglab import ClusterShape, Disturbance, Pattern, Plan, build_plan


@dataclass(frozen=True, kw_only=True)
class InTurns(Pattern):
    """One worker after another is slowed down for ``turn_s`` seconds: its iterations take ``factor`` times longer."""

    turn_s: float = 2.0
    factor: float = 2.0
    name: str = "in_turns"

    def __post_init__(self) -> None:
        if not self.turn_s > 0:
            raise ValueError(f"turn_s={self.turn_s}: must be more than 0")
        if not 0 <= self.factor <= 1000:
            raise ValueError(f"factor={self.factor}: must be from 0 to 1000")

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """All disturbances of a job, before it starts; the seed says who is the first."""
        starts = takewhile(lambda start_s: start_s < horizon_s, (turn * self.turn_s for turn in count()))
        windows = (
            Disturbance(
                start_s=start_s,
                end_s=start_s + self.turn_s,
                target=f"worker:{(turn + seed) % cluster.num_workers}",
                kind="slowdown",
                magnitude=self.factor,
            )
            for turn, start_s in enumerate(starts)
        )
        return build_plan(self.name, seed, horizon_s, windows)
