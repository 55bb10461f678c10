"""A job as the Brain meets it: nodes that it may change, and what they use while one worker waits for all servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from msgspec import structs

from strategies.dlrover.brain import Brain
from strategies.parts.scaling.changes import AddWorkers, Change, Decision, Replace, Resize, StopWaiting
from strategies.parts.scaling.usage import Given, Use
from strategies.protocol import NodeId
from tests.support.brain import GIB

FULL = 14.9 / 16
"""Of its cores a server uses no more than Wide & Deep's hot ones (figure 6)."""

Outcome = Callable[[Decision], tuple[float, bool]]
"""Seconds until a decision is settled, and whether it is granted."""


class World:
    """Workers use ``worker_cores``, their updates ``update_cores(number of servers)``, divided by ``shares``.

    When the servers' part of the load exceeds what one of them has, all workers wait for that one.
    """

    def __init__(
        self,
        brain: Brain,
        worker_cores: float,
        update_cores: Callable[[int], float],
        shares: Callable[[int], list[float]] = lambda number: [1 / number] * number,
        outcome: Outcome = lambda decision: (20.0, True),
    ) -> None:
        self.brain, self.worker_cores, self.update_cores = brain, worker_cores, update_cores
        self.shares, self.outcome = shares, outcome
        self.nodes: dict[NodeId, Given] = {}
        self.decisions: list[Decision] = []
        self.settled: list[tuple[float, Decision, bool]] = []
        self._ends: tuple[float, Decision, bool] | None = None
        self._numbers = {role: count() for role in ("worker", "server")}
        self.t = 0.0

    def play(self, until_s: float, period_s: float = 10.0) -> None:
        """Observe and decide every ``period_s`` seconds."""
        while self.t < until_s:
            if self._ends is not None and self._ends[0] <= self.t:
                self._settle()
            if self.of("worker") and self.of("server"):
                self.brain.observe(self.nodes, self.uses(), steps=int(self.t))
            self.brain.still_there(self.nodes)
            decision = self.brain.decide(self.t)
            if decision is not None:
                self._take(decision)
            self.t += period_s

    def of(self, role: str) -> list[NodeId]:
        return [node for node in self.nodes if node.role == role]

    def uses(self) -> Mapping[NodeId, Use]:
        workers, servers = self.of("worker"), self.of("server")
        shares = self.shares(len(servers))
        load = [len(workers) * self.update_cores(len(servers)) * share for share in shares]
        speed = min(1.0, *(FULL * self.nodes[node].cores / own for node, own in zip(servers, load, strict=True)))
        used = {node: own * speed for node, own in zip(servers, load, strict=True)}
        used |= {node: min(self.worker_cores, self.nodes[node].cores) for node in workers}
        return {node: Use(cores=cores, busy_frac=0.2, memory_bytes=GIB) for node, cores in used.items()}

    def _take(self, decision: Decision) -> None:
        self.decisions.append(decision)
        if decision.rule == "out of memory" and isinstance(decision.changes[0], Replace):
            self.change(decision.changes[0])
        elif decision.changes:
            assert self._ends is None, "one change at a time"
            seconds, granted = self.outcome(decision)
            self._ends = (self.t + seconds, decision, granted)

    def _settle(self) -> None:
        assert self._ends is not None
        _, decision, granted = self._ends
        self._ends = None
        for change in decision.changes if granted else ():
            self.change(change)
        self.settled.append((self.t, decision, granted))
        self.brain.settle(self.t, granted)

    def change(self, change: Change) -> None:
        """What is done to the nodes; their order stays, so that each keeps its part of the load."""
        match change:
            case Resize():
                for node in self.of(change.role):
                    del self.nodes[node]
                self._add(change.role, change.count, change.cores, change.memory_bytes)
            case AddWorkers():
                self._add("worker", change.count - change.low_priority, change.cores, change.memory_bytes)
                self._add("worker", change.low_priority, change.cores, change.memory_bytes, low_priority=True)
            case Replace():
                given = structs.replace(self.nodes[change.node], cores=change.cores, memory_bytes=change.memory_bytes)
                self.nodes[change.node] = given
            case StopWaiting():
                del self.nodes[change.node]

    def _add(self, role: str, number: int, cores: int, memory_bytes: int, low_priority: bool = False) -> None:
        given = Given(cores=cores, memory_bytes=memory_bytes, low_priority=low_priority)
        self.nodes |= {NodeId(role, next(self._numbers[role])): given for _ in range(number)}
