"""The part of a strategy that changes the job's nodes: a planner decides, :class:`Resizing` carries out (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol, final

from reading.ranges import OneOf, PositiveFloat, PositiveInt
from strategies.parts.hooks import Order, State, Tick
from strategies.parts.scaling.changes import Decision, Replace
from strategies.parts.scaling.fleet import Fleet
from strategies.parts.scaling.resizing import Resizing
from strategies.parts.scaling.usage import Given
from strategies.protocol import (
    Allocate,
    AnyCommand,
    AnyEvent,
    Checkpoint,
    Command,
    Compute,
    CoresAs,
    Grad,
    Launch,
    NodeId,
    Repartition,
    Restart,
    Restored,
    Retire,
    ServerLost,
    Started,
    Wake,
)


@dataclass(kw_only=True)
class ScalerSettings:
    """The nodes of a job, and how long it may take to change them.

    Attributes:
        cores_total: of all workers and servers together.
        unit_cores: cores of the job's machines in one of these; see :class:`strategies.parts.scaling.fleet.Fleet`.
        cores_as: meaning of a node's cores: a ``limit``, or a guaranteed ``request``, beyond which it may use idle
        ones.
        memory_bytes: of every node at the start.
        limit_memory: whether new nodes have that limit; it needs control groups.
        decide_every_s: seconds between two questions to the planner.
        launch_s: seconds that new nodes may take to join.
        drain_s: seconds that gradients may take to arrive before parameters move.
        data: allocation policy of the samples, ``dynamic`` or ``shared``.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

    cores_total: PositiveInt = 200
    unit_cores: PositiveFloat = 1.0
    cores_as: Annotated[CoresAs, OneOf("limit", "request")] = "limit"
    memory_bytes: PositiveInt = 8 * 2**30
    limit_memory: bool = True
    decide_every_s: float = 5.0
    launch_s: PositiveFloat = 600.0
    drain_s: PositiveFloat = 60.0
    data: str = "dynamic"
    lr_rule: str = "unit"


class Planner(Protocol):
    """Decides what a job's nodes should be."""

    def start(self, started: Started, given: Mapping[NodeId, Given]) -> None:
        """A job begins with these nodes."""

    def observe_event(self, event: AnyEvent, given: Mapping[NodeId, Given]) -> None:
        """Something has happened; ``given``: the resources of every present node."""

    def applied(self, grads: tuple[Grad, ...]) -> None:
        """An update of these gradients."""

    @property
    def urgent(self) -> bool:
        """Whether there is something to do that does not wait until what is under way has ended."""

    def decide(self, t: float, given: Mapping[NodeId, Given]) -> Decision | None:
        """The changes to make now, or None."""

    def end_decision(self, t: float, granted: bool, given: Mapping[NodeId, Given]) -> None:
        """The last decision is carried out, or was denied; these nodes are there now."""

    def log_state(self) -> State:
        """State to record in the log."""


@final
class Scaler:
    """An action of a composition. It counts a decision as settled when every node has come, or does not come.

    Args:
        planner: decides what the nodes should be.
        worker_cores: cores of every worker at the start.
        server_cores: cores of every server at the start.
        memory_bytes: memory of every node at the start.
        unit_cores: see :class:`strategies.parts.scaling.fleet.Fleet`, as ``limit_memory``.
        seamless: see :class:`Resizing`, as ``launch_s`` and ``drain_s``.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset(
        {Launch, Retire, Repartition, Allocate, Restart, Checkpoint, Wake}
    )
    watches_servers: ClassVar[bool] = False

    def __init__(
        self,
        planner: Planner,
        *,
        worker_cores: int,
        server_cores: int,
        memory_bytes: int,
        unit_cores: float = 1.0,
        limit_memory: bool = True,
        seamless: bool = True,
        launch_s: float = 600.0,
        drain_s: float = 60.0,
    ) -> None:
        worker, server = (Given(cores=cores, memory_bytes=memory_bytes) for cores in (worker_cores, server_cores))
        self.planner, self.fleet = planner, Fleet(worker, server, unit_cores, limit_memory)
        self.resizing = Resizing(self.fleet, seamless, launch_s, drain_s)
        self.start_cores = {
            "worker": self.fleet.real_cores(worker_cores),
            "server": self.fleet.real_cores(server_cores),
        }

    def start(self, started: Started) -> None:
        """Reset: the fleet is the initial one, and no change is in progress."""
        self.fleet.start(started)
        self.resizing.start(started)
        self._halted = False
        self._last = ""
        self.planner.start(started, self.fleet.present())

    def observe_event(self, event: AnyEvent) -> None:
        """Keep track of the fleet, and pass the event on to the planner."""
        if isinstance(event, ServerLost) and event.holding:
            self._halted = True
        elif isinstance(event, Restored):
            self._halted = False
        before = self.fleet.present()
        self.fleet.observe_event(event)
        now = self.fleet.present()  # the planner still knows a node that has just left
        self.planner.observe_event(event, now if now is before else {**before, **now})

    def applied(self, grads: tuple[Grad, ...]) -> None:
        self.planner.applied(grads)

    def then(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """At the start nodes get what they were given; later what is under way continues."""
        commands: list[AnyCommand] = []
        if isinstance(event, Started):
            present = self.fleet.present().items()
            commands = [
                Allocate(node=str(node), cpu_cores=self.fleet.real_cores(given.cores)) for node, given in present
            ]
        commands += self.resizing.then(event)
        if self.resizing.settled is not None:
            granted, self.resizing.settled = self.resizing.settled, None
            self.planner.end_decision(event.t, granted, self.fleet.present())
            self._last += " (done)" if granted else " (denied)"
        return commands

    def decide(self, tick: Tick) -> Sequence[AnyCommand]:
        """Ask the planner, unless the parameters are not there; while something is under way only if it is urgent."""
        busy = self.resizing.busy
        if self._halted or self.resizing.servers.switch.holds or (busy and not self.planner.urgent):
            return []
        decision = self.planner.decide(tick.t, self.fleet.present())
        if decision is None:
            return []
        self._last = decision_text(decision)
        tick.said.append(decision.rule)
        if not decision.changes:
            return []
        if busy:  # only the replacement of a worker that was out of memory does not wait
            return [
                command
                for change in decision.changes
                if isinstance(change, Replace) and change.node.role == "worker"
                for command in self.resizing.workers.replace(change)
            ]
        return self.resizing.begin(tick.t, decision.changes)

    def settle(self, event: AnyEvent, commands: list[AnyCommand], order: Order) -> list[AnyCommand]:
        """No worker begins to compute while parameters move."""
        kept, again = self.resizing.settle(commands)
        ordered = {one.worker for one in kept if isinstance(one, Compute)}
        return kept + [order(worker) for worker in again if worker not in ordered]

    def log_state(self) -> State:
        """Nodes, the phase of a switch, and the last decision with its numbers."""
        return {
            **self.fleet.totals(),
            "switch": str(self.resizing.servers.switch.phase),
            "decision": self._last,
            **self.planner.log_state(),
        }


def decision_text(decision: Decision) -> str:
    """One line for a decision, such as ``12 s adjust, hot server: Replace server:1 24 cores (used 14.9, ...)``."""
    changes = "; ".join(_change(change) for change in decision.changes) or "stays"
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in decision.numbers.items())
    why = f", {decision.why}" if decision.why else ""
    return f"{decision.t:.4g} s {decision.stage}, {decision.rule}: {changes}{why} ({numbers})"


def _change(change: object) -> str:
    fields = {name: getattr(change, name) for name in getattr(change, "__struct_fields__", ())}
    shown = [f"{name} {value}" for name, value in fields.items() if name != "memory_bytes" and value not in (False, 0)]
    return f"{type(change).__name__} {', '.join(shown)}"
