"""KILL_RESTART: the slowest persistent straggler is restarted on another machine (AntDT section VI-A; pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.antdt.detector import StragglerDetector
from strategies.antdt.restarts import Restarts
from strategies.parts.checks import NonNegativeFloat, NonNegativeInt, check_settings
from strategies.parts.hooks import Peers, Tick
from strategies.protocol import AnyCommand, Command, NodeId, Restart, Started, Wake


@dataclass(kw_only=True)
class RestartSettings:
    """Who is restarted, and how often.

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
class KillRestart(RestartSettings):
    """Restarts at most one node per decision: a persistent server before a persistent worker, the slowest first.

    Where the paper is silent: ``max_restarts`` applies to servers, too, so that a slowness that no restart cures does
    not stop the job forever.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Restart, Wake})
    looks_at: ClassVar[tuple[type, ...]] = (StragglerDetector,)

    def __post_init__(self) -> None:
        check_settings(self)

    def meet(self, peers: Peers) -> None:
        """Keep the detector of slow nodes."""
        self._detector = peers.one(StragglerDetector)

    def start(self, started: Started) -> None:
        """Reset: no node has been restarted."""
        self._restarts = Restarts(self.max_restarts, self.cooldown_s, self.min_slow_s)

    def decide(self, tick: Tick) -> Sequence[AnyCommand]:
        """The ``Restart`` of one node, if any is eligible."""
        servers = [NodeId.server(one) for one in self._detector.slow_servers(self.min_update_s)]
        transient = [NodeId.worker(one) for one in self._detector.stragglers("short")]
        workers = [NodeId.worker(one) for one in self._detector.stragglers("long")]
        self._restarts.watch(tick.t, {*servers, *workers, *transient})
        if workers and tick.pending_s > self.max_pending_s:
            tick.said.append(f"{workers[0]} stays: another would be pending for {tick.pending_s:.3g} s")
            workers = []
        picked = self._restarts.pick(tick.t, servers, tick.said) or self._restarts.pick(tick.t, workers, tick.said)
        if picked is None:
            return ()
        tick.restarted.append(picked)
        return [Restart(node=str(picked))]

    def log_state(self) -> dict[str, float | int | str]:
        """The number of restarts so far."""
        return {"restarts": self._restarts.total}
