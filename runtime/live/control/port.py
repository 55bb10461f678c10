"""The coordinator's orders as messages. The orders of one turn to the servers are one message to each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from runtime.core import inputs
from runtime.core.executor import Disturb
from runtime.core.job import (
    ApplyOrder,
    ComputeOrder,
    FragmentOrder,
    PushOrder,
    ReplicateOrder,
    SendOrder,
    StepOrder,
    SumOrder,
)
from runtime.core.node_orders import AllocateOrder, NodeOrder
from runtime.live.control.evaluations import Asked, LiveEvaluations
from runtime.live.control.following import LiveFollowers
from runtime.live.control.nodes import LiveNodes
from runtime.live.control.roster import Roster
from runtime.live.transport.auxiliaries import EVALUATOR, SCORER, Auxiliary
from runtime.live.transport.hub import Hub
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import (
    AuxiliaryOrder,
    ComputeReference,
    EvaluateVersion,
    Exclude,
    Forget,
    Gather,
    Message,
    Push,
    Update,
    Work,
    encode,
)
from strategies.protocol import NodeId

if TYPE_CHECKING:
    from runtime.live.control.session import LiveSession


@dataclass(eq=False)
class LivePort:
    """Collects the orders of a turn; :meth:`flush` sends them, first to servers, which are on the critical path.

    ``last_save``: where the evaluator stores the final parameters, if anywhere; ``followers``: of a job with replicas
    of the server.
    """

    hub: Hub
    loop: Loop
    roster: Roster
    nodes: LiveNodes
    session: LiveSession
    disturb: Disturb
    last_save: str = ""
    followers: LiveFollowers | None = None

    def __post_init__(self) -> None:
        self.evaluations = LiveEvaluations()
        self.sent_s: dict[int, float] = {}
        self._drop: list[int] = []
        self._apply: ApplyOrder | None = None
        self._deliver: list[tuple[str, int, int, int]] = []
        self._weigh: list[tuple[int, int]] = []
        self._ask: list[tuple[NodeId, Message]] = []
        self._about_held: list[tuple[int, Message]] = []
        self._about_sums: list[tuple[NodeId, Message]] = []
        self._sums: dict[int, SumOrder] = {}
        """By member: servers know only the sum, until it is used or dropped."""
        self._work: list[ComputeOrder] = []
        self._about_nodes: list[NodeOrder] = []
        """Orders that concern nodes: they follow all others."""

    def compute(self, order: ComputeOrder) -> None:
        """Order the delivery of parameters to the worker, then its Compute."""
        self._deliver.append(("worker", order.worker, order.incarnation, order.grad_id))
        self._work.append(order)

    def apply(self, order: ApplyOrder) -> None:
        """Order an update, after all earlier and before all later orders."""
        if self._apply or self._deliver:
            self._flush_servers()
        if self.followers is not None:  # samples are booked afterwards
            self.followers.remember(order.version - 1)
        self._apply = self._of_sums(order) if self._sums else order

    def _of_sums(self, order: ApplyOrder) -> ApplyOrder:
        """The update as servers know it: of every sum one vector, which has the weight of its members."""
        pairs = zip(order.grads, order.weights, strict=True)
        weights = {
            made.grad_id if (made := self._sums.pop(grad_id, None)) else grad_id: weight for grad_id, weight in pairs
        }
        return msgspec.structs.replace(order, grads=tuple(weights), weights=tuple(weights.values()))

    def step_alone(self, order: StepOrder) -> None:
        """Never called: a strategy that needs this is refused with servers."""
        raise RuntimeError(f"servers cannot carry out {order}")

    def average(self, workers: tuple[int, ...]) -> None:
        """Never called, since a strategy that needs this is refused, too."""
        raise RuntimeError(f"servers cannot average the parameters of workers {workers}")

    def push_half(self, order: PushOrder) -> None:
        """Never called: a strategy that pushes halves is refused with servers, too."""
        raise RuntimeError(f"servers cannot carry out {order}")

    def sum_fragment(self, order: FragmentOrder) -> None:
        """Never called: a strategy that sums fragments is refused with servers, too."""
        raise RuntimeError(f"servers cannot carry out {order}")

    def drop(self, grads: tuple[int, ...]) -> None:
        """Order servers to free the memory of gradients, and aggregators not to wait for them."""
        for grad_id in grads:
            if (made := self._sums.pop(grad_id, None)) is None:
                self._drop.append(grad_id)
            else:
                self._about_sums.append((NodeId.parse(made.via), Exclude(grads=(grad_id,))))

    def send(self, order: SendOrder) -> None:
        """Order a push, whose deadline starts now."""
        self._about_held.append((order.worker, Push(grad_id=order.grad_id)))

    def send_sum(self, order: SumOrder) -> None:
        """Order a sum, and pushes to the aggregator that makes it."""
        via, members = NodeId.parse(order.via), tuple([member.grad_id for member in order.members])
        self._sums |= dict.fromkeys(members, order)
        self._about_sums.append((via, Gather(grad_id=order.grad_id, members=members)))
        for member in order.members:
            address = self.roster.address_for(NodeId.worker(member.worker), via)
            self._about_held.append((member.worker, Push(grad_id=member.grad_id, via=address)))

    def replicate(self, order: ReplicateOrder) -> None:
        """Order a gradient or a copy for a replica of the server; a copy includes all earlier orders to the server."""
        self._flush_servers()
        self._following.replicate(order)

    def release(self, worker: int, grads: tuple[int, ...]) -> None:
        """Order a worker to keep gradients for replicas no longer."""
        self._following.release(worker, grads)

    @property
    def _following(self) -> LiveFollowers:
        assert self.followers is not None, "only a job with replicas of the server has such orders"
        return self.followers

    def forget(self, worker: int, grad_id: int) -> None:
        """Order a worker to discard what it holds, before its next Compute."""
        self._about_held.append((worker, Forget(grad_id=grad_id)))

    def compute_reference(self, number: int, version: int) -> None:
        """Order a reference gradient from the scorer; if there is none, the order is repeated later."""
        incarnation = self._order(SCORER, ComputeReference(ticket=SCORER.ticket(number)))
        if incarnation is not None:
            self.session.reference_ordered(number, incarnation)

    def inner_products(self, grad_id: int, reference: int) -> None:
        """Order inner products, after all earlier orders."""
        self._weigh.append((grad_id, SCORER.ticket(reference)))

    def wake(self, at_s: float, tag: str) -> None:
        self.loop.at(at_s, lambda: self.session.receive(inputs.TimerFired(tag)))

    def order_node(self, order: NodeOrder) -> None:
        """Carry it out after all earlier orders are sent."""
        self._about_nodes.append(order)

    def book(self, order: AllocateOrder) -> str | None:
        """Reserve what a node is about to be given; why not, if its host has no more cores left."""
        return self.nodes.book(order)

    def checkpoint(self, version: int, state: bytes) -> None:
        """Order a checkpoint after all earlier orders."""
        self.flush()
        self.session.supervisor.save(version, state)

    def evaluate(self, version: int, *, last: bool) -> None:
        """Order an evaluation of the current parameters. The last one also takes their fingerprint."""
        ticket = self.evaluations.ticket()
        order = EvaluateVersion(ticket=ticket, digest=last, save_to=self.last_save if last else "")
        if self._order(EVALUATOR, order) is None:
            self.session.cannot_evaluate()
            return
        self.evaluations.ordered(ticket, Asked(self.loop.now, version, final=last))
        self.flush()

    def _order(self, role: Auxiliary, order: AuxiliaryOrder) -> int | None:
        """Order the delivery of parameters to an auxiliary task, then ``order``; returns its incarnation."""
        incarnation = self.roster.serving(role.name)
        if incarnation is not None:
            self._deliver_to(role.node, incarnation, order.ticket)
            self._ask.append((role.node, order))
        return incarnation

    def _deliver_to(self, auxiliary: NodeId, incarnation: int, ticket: int) -> None:
        self._deliver.append((auxiliary.role, auxiliary.number, incarnation, ticket))

    def flush(self) -> None:
        """Send the collected orders."""
        self._flush_servers()
        about_sums, self._about_sums = self._about_sums, []
        for aggregator, message in about_sums:
            self.hub.send(aggregator, message)
        about_held, self._about_held = self._about_held, []
        for worker, message in about_held:
            self.sent_s[worker] = self.loop.now
            self.hub.send(NodeId.worker(worker), message)
        work, self._work = self._work, []
        for order in work:
            self.sent_s[order.worker] = self.loop.now
            self.hub.send(NodeId.worker(order.worker), Work(order=order))
        ask, self._ask = self._ask, []
        for auxiliary, message in ask:
            self.hub.send(auxiliary, message)
        about_nodes, self._about_nodes = self._about_nodes, []
        for about_node in about_nodes:
            self.nodes.carry_out(about_node)

    def data_state(self, version: int) -> dict[str, Any]:
        """The data service's state when ``version`` was the newest; of versions that somebody may come back to."""
        return self._following.states[version]

    def discard(self) -> None:
        """Discard orders that were not sent."""
        self._drop, self._apply, self._deliver, self._work = [], None, [], []
        self._weigh, self._ask, self._about_held, self._about_sums = [], [], [], []
        self._sums.clear()

    def _flush_servers(self) -> None:
        if not (self._drop or self._apply or self._deliver or self._weigh):
            return
        update = Update(
            drop=tuple(self._drop), apply=self._apply, deliver=tuple(self._deliver), inner_products=tuple(self._weigh)
        )
        self._drop, self._apply, self._deliver, self._weigh = [], None, [], []
        data = encode(update)
        for key in self.roster.holders:
            slowed = self._with_delay(update, key)
            if slowed is not update:
                self.hub.send(key, slowed)
            else:
                self.hub.send_encoded(key, data)
        if self.followers is not None:
            self.followers.update(update, self._with_delay)

    def _with_delay(self, update: Update, server: NodeId) -> Update:
        """As the plan disturbs this server."""
        delay_s, slowdown_frac = self.disturb(str(server), self.loop.now) if update.apply else (0.0, 0.0)
        if not (delay_s or slowdown_frac):
            return update
        return msgspec.structs.replace(update, delay_s=delay_s, slowdown_frac=slowdown_frac)
