"""Which slow nodes may be restarted now (pure bookkeeping of KILL_RESTART)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import final

from strategies.protocol import NodeId


@final
class Restarts:
    """Counts every node's restarts, and keeps the time of the last and since when the node has been slow.

    Args:
        max_restarts: most restarts of one node in a job; a slowness that these have not cured will remain.
        cooldown_s: seconds from one restart of a node to the next.
        min_slow_s: seconds for which a worker must have been slow at every decision; 0: none.
    """

    def __init__(self, max_restarts: int, cooldown_s: float, min_slow_s: float) -> None:
        self.max_restarts, self.cooldown_s, self.min_slow_s = max_restarts, cooldown_s, min_slow_s
        self.counts: dict[NodeId, int] = {}
        self.last_s: dict[NodeId, float] = {}
        self.slow_since_s: dict[NodeId, float] = {}

    def watch(self, t: float, slow: Collection[NodeId]) -> None:
        """Record that exactly these nodes are slow at the decision of time ``t``."""
        self.slow_since_s = {node: self.slow_since_s.get(node, t) for node in sorted(slow)}

    def pick(self, t: float, slow: Sequence[NodeId], said: list[str]) -> NodeId | None:
        """The first of the ``slow`` that may be killed at ``t``; ``said`` receives this, and why others may not."""
        for node in slow:
            if not (why_not := self._refusal(t, node)):
                said.append(f"KILL_RESTART {node}")
                self.counts[node] = self.counts.get(node, 0) + 1
                self.last_s[node] = t
                return node
            said.append(f"{node} stays: {why_not}")
        return None

    def _refusal(self, t: float, node: NodeId) -> str:
        if self.counts.get(node, 0) >= self.max_restarts:
            return f"restarted {self.max_restarts} times"
        if t < self.last_s.get(node, -inf) + self.cooldown_s:
            return "cools down"
        slow_s = t - self.slow_since_s.get(node, t)
        young = node.role == "worker" and slow_s < self.min_slow_s
        return f"slow for {slow_s:.3g} s only" if young else ""

    @property
    def total(self) -> int:
        """The number of restarts of all nodes."""
        return sum(self.counts.values())
