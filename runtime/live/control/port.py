"""The coordinator's orders as messages. The orders of one turn to the servers are one message to each."""

from __future__ import annotations

from typing import Protocol

import msgspec

from runtime.core import inputs
from runtime.core.executor import Disturb
from runtime.core.job import ApplyOrder, ComputeOrder
from runtime.live.transport.hub import Hub
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import ComputeReference, EvaluateVersion, Message, Update, Work, encode
from strategies.protocol import NodeId

EVALUATION_TICKETS = 1 << 48
"""First ticket of evaluations; tickets of gradients are below."""
REFERENCE_TICKETS = 1 << 49
"""First ticket of reference gradients."""
EVALUATOR, SCORER = NodeId("evaluator", 0), NodeId("scorer", 0)


class PortOwner(Protocol):
    """The port's calls to the session."""

    def receive(self, given: inputs.AnyInput) -> None:
        """Pass an input to the coordinator."""
        ...

    def wants_checkpoint(self, version: int, state: bytes) -> None:
        """Store a checkpoint now."""
        ...

    def wants_restart(self, node: str, pending_s: float) -> None:
        """Kill a task and restart it elsewhere."""
        ...

    def referring(self, number: int, incarnation: int) -> None:
        """A reference gradient is ordered from this incarnation of the scorer."""
        ...

    def evaluator_incarnation(self) -> int | None:
        """The connected evaluator; None if there is none."""
        ...

    def scorer_incarnation(self) -> int | None:
        """The connected scorer; None if there is none, and then the order is repeated later."""
        ...

    def cannot_evaluate(self) -> None:
        """The requested evaluation is not available."""
        ...


class LivePort:
    """Collects the orders of a turn; :meth:`flush` sends them, first to servers, which are on the critical path."""

    def __init__(self, hub: Hub, loop: Loop, owner: PortOwner, num_servers: int, disturb: Disturb) -> None:
        self.hub, self.loop, self.owner, self.disturb = hub, loop, owner, disturb
        self.servers = [NodeId.server(number) for number in range(num_servers)]
        self.tickets: dict[int, tuple[float, int]] = {}
        self.sent_s: dict[int, float] = {}
        self.last_save = ""
        self._next_ticket = EVALUATION_TICKETS
        self._drop: list[int] = []
        self._apply: ApplyOrder | None = None
        self._deliver: list[tuple[str, int, int, int]] = []
        self._weigh: list[tuple[int, int]] = []
        self._refer: list[Message] = []
        self._work: list[ComputeOrder] = []
        self._restarts: list[tuple[str, float]] = []

    def compute(self, order: ComputeOrder) -> None:
        """Order the delivery of parameters to the worker, then its Compute."""
        self._deliver.append(("worker", order.worker, order.incarnation, order.grad_id))
        self._work.append(order)

    def apply(self, order: ApplyOrder) -> None:
        """Order an update, after all earlier and before all later orders."""
        if self._apply or self._deliver:
            self._flush_servers()
        self._apply = order

    def drop(self, grads: tuple[int, ...]) -> None:
        """Order servers to free the memory of gradients."""
        self._drop += grads

    def compute_reference(self, number: int, version: int) -> None:
        """Order the delivery of parameters to the scorer, then the reference gradient."""
        incarnation = self.owner.scorer_incarnation()
        if incarnation is not None:
            ticket = REFERENCE_TICKETS + number
            self._deliver.append(("scorer", 0, incarnation, ticket))
            self._refer.append(ComputeReference(ticket=ticket))
            self.owner.referring(number, incarnation)

    def inner_products(self, grad_id: int, reference: int) -> None:
        """Order inner products, after all earlier orders."""
        self._weigh.append((grad_id, REFERENCE_TICKETS + reference))

    def wake(self, at_s: float, tag: str) -> None:
        self.loop.at(at_s, lambda: self.owner.receive(inputs.TimerFired(tag)))

    def restart(self, node: str, pending_s: float) -> None:
        """Restart a node after all earlier orders are sent."""
        self._restarts.append((node, pending_s))

    def checkpoint(self, version: int, state: bytes) -> None:
        """Order a checkpoint after all earlier orders."""
        self.flush()
        self.owner.wants_checkpoint(version, state)

    def evaluate(self, version: int, *, last: bool) -> None:
        """Deliver the current parameters to the evaluator. The last time, it also takes their fingerprint."""
        incarnation = self.owner.evaluator_incarnation()
        if incarnation is None:
            self.owner.cannot_evaluate()
            return
        ticket = self._next_ticket
        self._next_ticket += 1
        self.tickets[ticket] = (self.loop.now, version)
        self._deliver_to_evaluator(incarnation, ticket)
        self.flush()
        self.hub.send(EVALUATOR, EvaluateVersion(ticket=ticket, digest=last, save_to=self.last_save if last else ""))

    def _deliver_to_evaluator(self, incarnation: int, ticket: int) -> None:
        self._deliver.append(("evaluator", 0, incarnation, ticket))

    def flush(self) -> None:
        """Send the collected orders."""
        self._flush_servers()
        work, self._work = self._work, []
        for order in work:
            self.sent_s[order.worker] = self.loop.now
            self.hub.send(NodeId.worker(order.worker), Work(order=order))
        compute_reference, self._refer = self._refer, []
        for message in compute_reference:
            self.hub.send(SCORER, message)
        restarts, self._restarts = self._restarts, []
        for node, pending_s in restarts:
            self.owner.wants_restart(node, pending_s)

    def discard(self) -> None:
        """Discard orders that were not sent."""
        self._drop, self._apply, self._deliver, self._work = [], None, [], []
        self._weigh, self._refer = [], []

    def _flush_servers(self) -> None:
        if not (self._drop or self._apply or self._deliver or self._weigh):
            return
        update = Update(
            drop=tuple(self._drop), apply=self._apply, deliver=tuple(self._deliver), inner_products=tuple(self._weigh)
        )
        self._drop, self._apply, self._deliver, self._weigh = [], None, [], []
        data = encode(update)
        for key in self.servers:
            delay_s, slowdown_frac = self.disturb(str(key), self.loop.now) if update.apply else (0.0, 0.0)
            if delay_s or slowdown_frac:
                slow = msgspec.structs.replace(update, delay_s=delay_s, slowdown_frac=slowdown_frac)
                self.hub.send(key, slow)
            else:
                self.hub.send_encoded(key, data)
