"""The Brain as the planner of a strategy: it receives events, and counts what it needs (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from strategies.dlrover.brain import Brain, BrainSettings
from strategies.dlrover.history import InitialPlan
from strategies.dlrover.used import at_requests
from strategies.parts.hooks import State
from strategies.parts.scaling.changes import Decision
from strategies.parts.scaling.usage import Given, Use
from strategies.protocol import AnyEvent, Arrived, Grad, Joined, Lost, NodeId, Observed, Restored, ServerLost, Started


@final
class BrainPlanner:
    """DLRover's Brain. ``initial``: what the job should begin with; None: what it has.

    Args:
        settings: of the Brain.
        initial: from the history of finished jobs.
        unit_cores: cores of the job's machines that the Brain counts as one; see :mod:`strategies.parts.scaling.fleet`.
        requests: nodes may use more than they were given; see :mod:`strategies.dlrover.used`.
    """

    def __init__(
        self,
        settings: BrainSettings,
        initial: InitialPlan | None = None,
        unit_cores: float = 1.0,
        *,
        requests: bool = False,
    ) -> None:
        self.settings, self.initial, self.unit_cores, self.requests = settings, initial, unit_cores, requests

    def start(self, started: Started, given: Mapping[NodeId, Given]) -> None:
        """Begin with the nodes that the job has, unless history says otherwise."""
        iterations = None
        if started.total_samples is not None:  # asynchronous: a step for every batch of a worker
            iterations = started.total_samples // max(started.batch_samples)
        self.brain = Brain(self.settings, iterations, self.initial)
        self._steps = 0
        self._progress_s = {node: 0.0 for node in given if node.role == "worker"}

    def observe_event(self, event: AnyEvent, given: Mapping[NodeId, Given]) -> None:
        """Progress, the nodes' use, and nodes that ran out of memory."""
        match event:
            case Joined(worker=worker):  # one that never delivers anything hangs, too
                self._progress_s[NodeId.worker(worker)] = event.t
            case Arrived(grad=grad):
                self._progress_s[NodeId.worker(grad.worker)] = event.t
            case Restored(workers=workers):
                self._progress_s |= {NodeId.worker(worker): event.t for worker in workers}
            case Lost(worker=worker, cause="oom") if (node := NodeId.worker(worker)) in given:
                self.brain.out_of_memory(node, given)
            case ServerLost(server=server, cause="oom") if (node := NodeId.server(server)) in given:
                self.brain.out_of_memory(node, given)
            case Observed():
                self._observe(event, given)

    def _observe(self, event: Observed, given: Mapping[NodeId, Given]) -> None:
        """Only observations of all nodes count.

        No node uses more than its limit: a quota holds over its own periods, so within others a busy node may seem to
        use 1.01 of its core, for which a plan in whole cores would give it two.
        """
        uses: dict[NodeId, Use] = {}
        for use in event.nodes:
            node = NodeId.parse(use.node)
            if use.cpu_cores is not None and node in given:
                cores = use.cpu_cores / self.unit_cores
                uses[node] = Use(
                    cores=cores if self.requests else min(cores, given[node].cores),
                    busy_frac=use.busy_frac or 0.0,
                    memory_bytes=use.memory_bytes or 0,
                )
        if given and uses.keys() >= given.keys():
            idle_s = {node: event.t - self._progress_s.get(node, event.t) for node in given if node.role == "worker"}
            self.brain.observe(given, at_requests(given, uses) if self.requests else uses, self._steps, idle_s)

    def applied(self, grads: tuple[Grad, ...]) -> None:
        self._steps += 1

    @property
    def urgent(self) -> bool:
        return self.brain.lacks_worker

    def decide(self, t: float, given: Mapping[NodeId, Given]) -> Decision | None:
        self.brain.still_there(given)
        return self.brain.decide(t)

    def end_decision(self, t: float, granted: bool, given: Mapping[NodeId, Given]) -> None:
        if self.brain.under_way:
            self.brain.settle(t, granted)

    def log_state(self) -> State:
        return {"stage": str(self.brain.stage)}
