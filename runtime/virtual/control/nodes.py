"""Orders about nodes on the virtual clock: they become inputs of the recovery, and places on machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, assert_never, final

from runtime.core.coordinator import Coordinator
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


class Desk(Protocol):
    """Where a job of a set asks for nodes and cores, which its cluster grants."""

    def ask(self, node: NodeId, order: LaunchOrder) -> None:
        """Ask for a node; ``Nodes.granted`` or ``Nodes.refused`` follows."""

    def allot(self, node: NodeId, cores: float) -> str | None:
        """Ask for so many cores of a node's host; returns why it does not get them, None if it has them."""

    def leaving(self, node: NodeId) -> None:
        """Give a node back, or take a request back."""


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
        self.desk: Desk | None = None
        """None: hosts belong to the job alone, or to jobs of a fixed size."""
        self._asked: dict[NodeId, LaunchOrder] = {}

    def carry_out(self, t: float, order: NodeOrder) -> None:
        """Carry out an order about nodes that leaves the coordinator at ``t``."""
        match order:
            case RestartOrder(node, pending_s):  # a checkpoint was ordered before a server goes
                self.supervisor.tell(t, inputs.Restart(NodeId.parse(node), pending_s))
            case LaunchOrder():
                self._launch(t, order)
            case RetireOrder(node, reason):  # one without a place never was there
                if self._asked.pop(NodeId.parse(node), None) is not None and self.desk is not None:
                    self.desk.leaving(NodeId.parse(node))
                if (key := NodeId.parse(node)) in self.supervisor.recovery.tasks:
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
        if self.desk is not None:
            refused = self.desk.allot(NodeId.parse(order.node), order.cpu_cores or 0.0)
            if refused is not None:
                return refused
        return self.places.book(order.node, order.cpu_cores, order.link_bytes_per_s)

    def _launch(self, t: float, order: LaunchOrder) -> None:
        """A node with a new number starts when there is a place for it, and joins after the time that this takes."""
        node = NodeId.parse(order.node)
        if self.desk is not None:
            self._asked[node] = order
            self.desk.ask(node, order)
            return
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
        order = self._asked.pop(node, None)
        if order is not None:
            self.places.enter(t, node, order.cpu_cores, (), host)
            self._admit(t, node, order)

    def refused(self, t: float, node: NodeId, reason: str) -> None:
        """The set does not grant a node."""
        if self._asked.pop(node, None) is not None:
            self._deny(t, node, reason)

    def _deny(self, t: float, node: NodeId, reason: str) -> None:
        """No host takes it; its request may have been taken back meanwhile."""
        if node in self.coordinator.members.awaited:
            self.coordinator.receive(t, did_not_start(node, reason))
