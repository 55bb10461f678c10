"""Orders about nodes on the virtual clock: they become inputs of the recovery, and places on machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never, final

from runtime.core.coordinator import Coordinator
from runtime.core.desk import Requests
from runtime.core.inputs import did_not_start
from runtime.core.node_orders import (
    AllocateOrder,
    LaunchOrder,
    NodeOrder,
    RepartitionOrder,
    RestartOrder,
    RetireOrder,
    SuspendOrder,
)
from runtime.core.recovery import inputs
from runtime.virtual.clock import MESSAGE, Clock
from runtime.virtual.control.places import Places
from runtime.virtual.control.supervisor import VirtualSupervisor
from runtime.virtual.tasks.host_replicas import HostReplicas
from strategies.protocol import NodeId


@final
class Nodes:
    """Carries out what a port orders; ``t`` is when an order leaves the coordinator.

    ``entered`` is called with the name of every newcomer that has a place.
    """

    def __init__(
        self,
        clock: Clock,
        coordinator: Coordinator,
        supervisor: VirtualSupervisor,
        places: Places,
        entered: Callable[[str], None],
    ) -> None:
        self.clock, self.coordinator, self.supervisor = clock, coordinator, supervisor
        self.places, self.entered = places, entered
        self.requests = Requests()

    def carry_out(self, t: float, order: NodeOrder) -> None:
        """Carry out an order about nodes that leaves the coordinator at ``t``."""
        match order:
            case RestartOrder(node, pending_s):  # a checkpoint was ordered before a server goes
                self.supervisor.tell(t, inputs.Restart(NodeId.parse(node), pending_s))
            case LaunchOrder():
                self._launch(t, order)
            case RetireOrder(node, reason):  # one without a place never was there
                self.requests.withdraw(key := NodeId.parse(node))
                if key in self.supervisor.recovery.tasks:
                    self.supervisor.tell(t, inputs.Dismiss(key, reason))
            case RepartitionOrder(shares):  # iterations in progress are void
                self.supervisor.workers.lose_all()
                parts = tuple((NodeId.parse(server), share) for server, share in shares)
                self.supervisor.tell(t, inputs.Repartition(parts))
            case SuspendOrder():  # iterations in progress are void; on a host a replica ends its own, then stores
                if not isinstance(self.supervisor.servers, HostReplicas):
                    self.supervisor.workers.lose_all()
                self.supervisor.tell(t, inputs.Suspend())
            case AllocateOrder(node, cpu_cores, link_bytes_per_s):
                self.places.allocate(node, cpu_cores, link_bytes_per_s)
            case _:
                assert_never(order)

    def book(self, order: AllocateOrder) -> str | None:
        """Reserve what a node is about to be given; returns why that is impossible."""
        return self.requests.allot(
            NodeId.parse(order.node),
            order.cpu_cores,
            lambda: self.places.book(order.node, order.cpu_cores, order.link_bytes_per_s),
        )

    def _launch(self, t: float, order: LaunchOrder) -> None:
        """A node with a new number starts when there is a place for it, and joins after the time that this takes."""
        if self.requests.ask(order):
            return
        node = NodeId.parse(order.node)
        try:
            self.places.enter(t, node, order.cpu_cores, order.not_on)
        except ValueError as error:
            self.clock.at(
                t, MESSAGE, self.supervisor.owner.drive, lambda t, reason=str(error): self._deny(t, node, reason)
            )
            return
        self._admit(t, node, order)

    def _admit(self, t: float, node: NodeId, order: LaunchOrder) -> None:
        """It has a place, and starts after the time for which its own scheduler keeps it pending."""
        self.supervisor.tell(t, inputs.Admit(node, order.pending_s))
        self.clock.at(t, MESSAGE, self.entered, order.node)

    def granted(self, t: float, node: NodeId, host: int) -> None:
        """The set has granted a node on the host of this number, which may not be wanted any more."""
        order = self.requests.answered(node)
        if order is not None:
            self.places.enter(t, node, order.cpu_cores, (), host)
            self._admit(t, node, order)

    def refused(self, t: float, node: NodeId, reason: str) -> None:
        """The set does not grant a node."""
        if self.requests.answered(node) is not None:
            self._deny(t, node, reason)

    def _deny(self, t: float, node: NodeId, reason: str) -> None:
        """No host takes it; its request may have been taken back meanwhile."""
        if node in self.coordinator.members.awaited:
            self.coordinator.receive(t, did_not_start(node, reason))
