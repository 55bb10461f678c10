"""The coordinator's orders to replicas. The orders of one turn to a replica are sent together, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.core.job import ApplyOrder, ComputeOrder, FragmentOrder, PushOrder, StepOrder
from runtime.core.node_orders import AllocateOrder
from runtime.live.control.port import LivePort
from runtime.live.transport.messages import (
    AverageOwn,
    Deliver,
    DropGradients,
    JoinCollective,
    Message,
    MoveAlone,
    PushOwn,
    ReceiveState,
    Reduce,
    ShareFragment,
    Work,
    encode,
)
from strategies.protocol import NodeId

REMEMBERED_VERSIONS = 4
"""Updates before the newest order whose states are kept in any case."""

if TYPE_CHECKING:
    pass


class ReplicaPort(LivePort):
    """As :class:`LivePort`; ``states`` holds the data service's state before each of the last updates, by version."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.states: dict[int, dict[str, Any]] = {}
        self._versions: dict[int, int] = {}
        """The version that a gradient is computed on, until it is used or dropped."""
        self._reached = 0
        """A worker has completed this update, so every other has completed the one before."""
        self._left_with: dict[int, int] = {}
        """By child: the version that it has until it reads that it has left the ring."""
        self._outbox: dict[int, bytearray] = {}

    def book(self, order: AllocateOrder) -> str | None:
        """As for a job with servers, but without a rate of sending."""
        if order.link_bytes_per_s is not None:
            return f"link_bytes_per_s={order.link_bytes_per_s:g}: replicas send in a ring, at one rate"
        return super().book(order)

    def compute(self, order: ComputeOrder) -> None:
        """Order a Compute; the worker has the parameters already, or its parent is to send them."""
        self.sent_s[order.worker] = self.loop.now
        self._versions[order.grad_id] = order.version
        if order.parent is not None:
            self._tell(order.parent, self._child(order))
        self._tell(order.worker, Work(order=order))

    def apply(self, order: ApplyOrder) -> None:
        """Order an update from all replicas; samples are booked afterwards, so the data state is that before it."""
        self.states[order.version - 1] = self.session.data_state()
        self._reached = max([self._reached, *(self._versions.pop(grad, 0) for grad in order.grads)])
        oldest = min(self._reached - 1, order.version - REMEMBERED_VERSIONS)
        self._left_with = {child: self._left_with.get(child, order.version - 1) for child in order.excluded}
        kept = set(self._left_with.values())
        for version in [version for version in self.states if version < oldest and version not in kept]:
            del self.states[version]
        self._tell_all(Reduce(order=order))
        for worker, source in order.returning:
            incarnation = self.roster.incarnation(worker)
            self._tell(source, Deliver(role="reader", id=worker, incarnation=incarnation))
            self._tell(worker, ReceiveState(source=source))
        if order.children:
            self._on_left_ring(frozenset(child for child, _ in order.children))

    def step_alone(self, order: StepOrder) -> None:
        """Order a replica's own step."""
        self._tell(order.worker, MoveAlone(order=order))

    def average(self, workers: tuple[int, ...]) -> None:
        """Order a sum of these replicas, which the others take no part in."""
        for worker in workers:
            self._tell(worker, AverageOwn(workers=workers))

    def push_half(self, order: PushOrder) -> None:
        """Order a replica's half to another one; both take part."""
        message = PushOwn(order=order)
        self._tell(order.worker, message)
        if order.to is not None:
            self._tell(order.to, message)

    def sum_fragment(self, order: FragmentOrder) -> None:
        """Order a sum of all replicas; without one, from those that offer or mix."""
        message = ShareFragment(order=order)
        if order.moves:
            self._tell_all(message)
            return
        for worker in sorted({*order.offer, *order.mix}):
            self._tell(worker, message)

    def _on_left_ring(self, children: frozenset[int]) -> None:
        """These will not have the parameters after the next update: another delivers to auxiliary tasks."""
        if self.roster.primary in children:
            stays = min(worker for worker in self.roster.members.here() if worker not in children)
            self.session.supervisor.elect_primary(stays)

    @staticmethod
    def _child(order: ComputeOrder) -> Deliver:
        return Deliver(role="child", id=order.worker, incarnation=order.incarnation, ticket=order.grad_id)

    def drop(self, grads: tuple[int, ...]) -> None:
        """Order their holders to discard gradients."""
        for grad in grads:
            self._versions.pop(grad, None)
        self._tell_all(DropGradients(grads=grads))

    def flush(self) -> None:
        """Send the collected orders."""
        outbox, self._outbox = self._outbox, {}
        for worker, data in outbox.items():
            self.hub.send_encoded(NodeId.worker(worker), bytes(data))
        super().flush()

    def data_state(self, version: int) -> dict[str, Any]:
        """The data service's state when ``version`` was the newest; of versions that somebody may come back to."""
        return self.states[version]

    def discard(self) -> None:
        """Discard orders that were not sent."""
        super().discard()
        self._outbox.clear()
        self._versions.clear()
        self._left_with.clear()
        self._reached = 0

    def _deliver_to(self, auxiliary: NodeId, incarnation: int, ticket: int) -> None:
        deliver = Deliver(role=auxiliary.role, id=auxiliary.number, incarnation=incarnation, ticket=ticket)
        self._tell(self.roster.primary, deliver)

    def _tell(self, worker: int, message: Message) -> None:
        self._outbox.setdefault(worker, bytearray()).extend(encode(message))

    def _tell_all(self, message: Message) -> None:
        data = encode(message)
        for worker in self.roster.replicas:
            self._outbox.setdefault(worker, bytearray()).extend(data)


class NativePort(ReplicaPort):
    """The port for ``DistributedDataParallel``, where all replicas take part in every backward pass."""

    def compute(self, order: ComputeOrder) -> None:
        """Collect an order of the round."""
        super().compute(order)
        self._work.append(order)

    def flush(self) -> None:
        """Complete the round: replicas without samples take part, too."""
        if self._work:
            ticket, computing = min(order.grad_id for order in self._work), {order.worker for order in self._work}
            for worker in self.roster.replicas:
                if worker not in computing:
                    self._tell(worker, JoinCollective(ticket=ticket))
            self._work = []  # all that is ordered is in the outbox
        super().flush()
