"""KILL_RESTART: the slowest persistent straggler is restarted on another machine, if it may be (AntDT VI-A; pure)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, final

from reading.ranges import Checked, NonNegativeFloat, NonNegativeInt
from strategies.parts.hooks import Peers, Tick
from strategies.parts.monitoring.base import FindsStragglers
from strategies.protocol import AnyCommand, Command, NodeId, Restart, Started, Wake


@dataclass(kw_only=True)
class RestartSettings:
    """Which nodes are restarted, and how often.

    Attributes:
        max_pending_s: longest expected pending time of a new worker.
        max_restarts: of one node.
        cooldown_s: seconds between two restarts of one node.
        min_slow_s: seconds for which a worker must have been slow before it is killed; 0 is the paper's bare rule.
        min_update_s: seconds per update below which no server is slow; 0 is the paper's bare rule.
    """

    max_pending_s: NonNegativeFloat = 600.0
    max_restarts: NonNegativeInt = 3
    cooldown_s: NonNegativeFloat = 600.0
    min_slow_s: NonNegativeFloat = 0.0
    min_update_s: NonNegativeFloat = 0.0


@final
@dataclass(kw_only=True)
class KillRestart(Checked, RestartSettings):
    """Restarts at most one node per decision: a persistent server before a persistent worker, the slowest first.

    Where the paper is silent: ``max_restarts`` applies to servers, too, so that a slowness that no restart cures does
    not stop the job forever.

    ``counts`` and ``last_s``: how often a node was restarted, and when last; ``slow_since_s``: since when it is slow.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Restart, Wake})
    looks_at: ClassVar[tuple[type, ...]] = (FindsStragglers,)

    def meet(self, peers: Peers) -> None:
        self._detector: FindsStragglers = peers.one(FindsStragglers)  # type: ignore[type-abstract]

    def start(self, started: Started) -> None:
        self.counts: dict[NodeId, int] = {}
        self.last_s: dict[NodeId, float] = {}
        self.slow_since_s: dict[NodeId, float] = {}

    def decide(self, tick: Tick) -> Sequence[AnyCommand]:
        servers = [NodeId.server(one) for one in self._detector.slow_servers(self.min_update_s)]
        transient = [NodeId.worker(one) for one in self._detector.stragglers("short")]
        workers = [NodeId.worker(one) for one in self._detector.stragglers("long")]
        self.watch(tick.t, {*servers, *workers, *transient})
        if workers and tick.pending_s > self.max_pending_s:
            tick.said.append(f"{workers[0]} stays: another would be pending for {tick.pending_s:.3g} s")
            workers = []
        picked = self.pick(tick.t, servers, tick.said) or self.pick(tick.t, workers, tick.said)
        if picked is None:
            return ()
        tick.restarted.append(picked)
        return [Restart(node=str(picked))]

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

    def log_state(self) -> dict[str, float | int | str]:
        return {"restarts": sum(self.counts.values())}
