"""The coordinator's orders to replicas. What one turn orders of a replica goes out as one piece, in its order."""

from __future__ import annotations

from typing import Any, Protocol

from runtime.core.executor import Disturb
from runtime.core.job import ApplyOrder, ComputeOrder
from runtime.live.control.port import LivePort, PortOwner
from runtime.live.transport.hub import Hub
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import Deliver, DropGradients, JoinCollective, Message, Reduce, Work, encode
from strategies.protocol import NodeId

REMEMBERED_VERSIONS = 4
"""Replicas are at most two updates behind what has been ordered: one may not have completed the last but one, whose
result another has already used for the gradients of the last."""


class ReplicaPortOwner(PortOwner, Protocol):
    """What the port must know besides."""

    def replicas(self) -> tuple[int, ...]:
        """Who takes part in an update that is ordered now."""
        ...

    def speaker(self) -> int:
        """The replica that the evaluator hears from."""
        ...

    def data_state(self) -> dict[str, Any]:
        """What of the data has been applied."""
        ...


class ReplicaPort(LivePort):
    """As :class:`LivePort`; ``states`` holds what the data service was before each of the last updates, by version."""

    owner: ReplicaPortOwner

    def __init__(self, hub: Hub, loop: Loop, owner: ReplicaPortOwner, num_servers: int, disturb: Disturb) -> None:
        super().__init__(hub, loop, owner, num_servers, disturb)
        self.states: dict[int, dict[str, Any]] = {}
        self._outbox: dict[int, bytearray] = {}

    def compute(self, order: ComputeOrder) -> None:
        """The worker has the parameters already."""
        self.sent_s[order.worker] = self.loop.now
        self._tell(order.worker, Work(order=order))

    def apply(self, order: ApplyOrder) -> None:
        """To all replicas; the samples are booked afterwards, so the data is still that of the version before."""
        self.states[order.version - 1] = self.owner.data_state()
        for version in [version for version in self.states if version < order.version - REMEMBERED_VERSIONS]:
            del self.states[version]
        self._tell_all(Reduce(order=order))

    def drop(self, grads: tuple[int, ...]) -> None:
        """Whoever holds them forgets them."""
        self._tell_all(DropGradients(grads=grads))

    def flush(self) -> None:
        """Send what was ordered."""
        outbox, self._outbox = self._outbox, {}
        for worker, data in outbox.items():
            self.hub.send_encoded(NodeId.worker(worker), bytes(data))
        super().flush()

    def discard(self) -> None:
        """Forget what was ordered but not sent."""
        super().discard()
        self._outbox.clear()

    def _deliver_to_evaluator(self, incarnation: int, ticket: int) -> None:
        self._tell(self.owner.speaker(), Deliver(role="evaluator", id=0, incarnation=incarnation, ticket=ticket))

    def _tell(self, worker: int, message: Message) -> None:
        self._outbox.setdefault(worker, bytearray()).extend(encode(message))

    def _tell_all(self, message: Message) -> None:
        data = encode(message)
        for worker in self.owner.replicas():
            self._outbox.setdefault(worker, bytearray()).extend(data)


class NativePort(ReplicaPort):
    """For ``DistributedDataParallel``: when one computes, all take part."""

    def __init__(self, hub: Hub, loop: Loop, owner: ReplicaPortOwner, num_servers: int, disturb: Disturb) -> None:
        super().__init__(hub, loop, owner, num_servers, disturb)
        self._computing: dict[int, int] = {}

    def compute(self, order: ComputeOrder) -> None:
        """One of a round."""
        super().compute(order)
        self._computing[order.worker] = order.grad_id

    def flush(self) -> None:
        """The round is complete: who has no samples in it takes part without."""
        if self._computing:
            ticket = min(self._computing.values())
            for worker in self.owner.replicas():
                if worker not in self._computing:
                    self._tell(worker, JoinCollective(ticket=ticket))
            self._computing.clear()
        super().flush()
