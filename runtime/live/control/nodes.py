"""The nodes of a live job: orders about them become inputs of the recovery, places on machines, and limits there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, assert_never, final

from runtime.core import inputs
from runtime.core.desk import Requests
from runtime.core.node_orders import (
    AllocateOrder,
    LaunchOrder,
    NodeOrder,
    RepartitionOrder,
    RestartOrder,
    RetireOrder,
    SuspendOrder,
)
from runtime.core.recovery import inputs as recovery
from runtime.errors import is_full
from runtime.live.control.allotting import Allotter
from runtime.live.control.injecting import Injector
from runtime.live.control.joined import JoinedMachines
from runtime.live.control.supervisor import LiveSupervisor
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId

if TYPE_CHECKING:
    from runtime.live.control.session import LiveSession


@final
class LiveNodes:
    """Carries out what a port orders, and finds who moves a place.

    ``host_of`` names a task's host; None without hosts. ``joined``: the machines that have joined, if tasks are there.
    """

    def __init__(
        self,
        session: LiveSession,
        supervisor: LiveSupervisor,
        injector: Injector,
        allotter: Allotter,
        host_of: Callable[[str], str | None],
        joined: JoinedMachines | None = None,
    ) -> None:
        self.session, self.supervisor, self.injector, self.allotter = session, supervisor, injector, allotter
        self.host_of, self.joined = host_of, joined
        self.requests = Requests()
        self.elsewhere: Callable[[str], int | None] | None = None
        """Says to which host a task goes that is restarted (None: it stays), where a cluster gives the places."""
        self.rehoused: Callable[[], None] | None = None
        """Called when a task may have another host, where jobs reserve what hosts have."""
        self._layout_version = 0
        """Of the nodes that have places."""

    # ---- orders ------------------------------------------------------------------------------------------------------

    def carry_out(self, order: NodeOrder) -> None:
        """Carry out an order about nodes."""
        match order:
            case RestartOrder(node, pending_s):  # another machine, without the old one's disturbances
                self.supervisor.restart(NodeId.parse(node), pending_s)
            case LaunchOrder():
                self._launch(order)
            case RetireOrder(node, reason):  # one without a place never was there
                self.requests.withdraw(key := NodeId.parse(node))
                if key in self.supervisor.tasks:
                    self.supervisor.tell(recovery.Dismiss(key, reason))
                self.allotter.dismiss(key)
            case RepartitionOrder(shares):
                parts = tuple((NodeId.parse(server), share) for server, share in shares)
                self.supervisor.tell(recovery.Repartition(parts))
            case SuspendOrder():
                self.supervisor.suspend()
            case AllocateOrder(node, cpu_cores, link_bytes_per_s):
                self.allotter.allocate(NodeId.parse(node), cpu_cores, link_bytes_per_s)
            case _:
                assert_never(order)

    def _launch(self, order: LaunchOrder) -> None:
        """A node more, whose number nobody had, if there is a place for it, which a set of jobs decides later."""
        if self.requests.ask(order):
            return
        self.free_places()
        if self.joined is not None:
            self.joined.choose(order.node)
        self._admit(order)

    def _admit(self, order: LaunchOrder, host: int | None = None) -> bool:
        """It starts, on the host of this number (None: on one that has room), or the job learns why it cannot."""
        try:
            place = self.allotter.admit(order, host)
        except ValueError as error:
            self.session.receive(inputs.did_not_start(NodeId.parse(order.node), str(error)))
            return False
        self.supervisor.launch(order, place)
        self.injector.plan.admitted(order.node)
        return True

    def book(self, order: AllocateOrder) -> str | None:
        """Reserve cores for a node; returns why that is impossible."""
        self.free_places()
        node = NodeId.parse(order.node)
        return self.requests.allot(node, order.cpu_cores, lambda: self.allotter.refuses(node, order.cpu_cores))

    # ---- answers of a cluster ----------------------------------------------------------------------------------------

    def granted(self, node: NodeId, host: int) -> None:
        """The set has granted a node on the host of this number, which may not be wanted any more."""
        order = self.requests.answered(node)
        if order is None:
            return
        self.free_places()
        if not self._admit(order, host):
            self.left(node)

    def refused(self, node: NodeId, reason: str) -> None:
        """The set does not grant a node."""
        if self.requests.answered(node) is not None:
            self.session.receive(inputs.did_not_start(node, reason))

    def left(self, node: NodeId) -> None:
        """A node has left for good; others can have what it was granted when its last process has ended."""
        if self.requests.desk is not None:
            self.supervisor.once_ended(node, partial(self.requests.desk.leaving, node))

    # ---- places ------------------------------------------------------------------------------------------------------

    def free_places(self) -> None:
        """Free the places of nodes that are no longer members, however they left."""
        layout = self.supervisor.members.layout
        if layout.version != self._layout_version:
            self._layout_version = layout.version
            self.allotter.keep([*layout.nodes, *self.supervisor.roster.aggregators])
            if self.injector.paced is not None:
                self.injector.paced.look()

    def ready(self, node: NodeId) -> None:
        """The next incarnation of a node is built: it gets its predecessor's link rates."""
        self.allotter.ready(node)
        if self.injector.paced is not None:
            self.injector.paced.ready(node)

    def moved(self, node: NodeId) -> Place | None:
        """A restarted task starts elsewhere, or where it was, under the disturbances of that place."""
        place = self._relocate(node)
        if self.rehoused is not None:
            self.rehoused()
        return place

    def _relocate(self, node: NodeId) -> Place | None:
        if self.elsewhere is None:
            return self._move(node)
        to = self.elsewhere(str(node))
        return None if to is None else self._move(node, to)

    def resume(self, hosts: Mapping[str, int]) -> None:
        """A preempted job continues, with every task on the host of this number.

        The disturbances of a host continue for a task that stays on it.
        """
        leaving = {task: to for task, to in hosts.items() if self.host_of(task) != str(NodeId("host", to))}
        moved = {node: self._move(node, to) for task, to in leaving.items() for node in [NodeId.parse(task)]}
        self.supervisor.resume({node: place for node, place in moved.items() if place is not None})

    def _move(self, node: NodeId, to: int | None = None) -> Place | None:
        """A task's next incarnation starts elsewhere; ``to``: the host's number, where it is given."""
        try:
            place = self.injector.moved(str(node), to)
            if place is None and self.joined is not None:
                place = self.joined.move(str(node))
            if place is not None:
                self.allotter.moved(node)
        except (OSError, ValueError) as error:
            if is_full(error):  # an error of the record
                raise
            self.session.failed(f"{node} could not move: {error}")
            return None
        return place
