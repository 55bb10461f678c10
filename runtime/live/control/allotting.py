"""What the nodes of a live job may use: cores and memory by control groups, the rate of sending by their own sockets.

A node keeps what it was given through all its incarnations. Every limit is read back, and noted (``Enforced``).
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.core.job import LaunchOrder
from runtime.live.machines.cgroup_files import QuotaRefused
from runtime.live.machines.machines import HostMachines
from runtime.live.transport.messages import Message, Pace, Paced
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId


class Allotter:
    """``level`` is that of the plan's throttling of a target now; ``send`` sends a message to a node's task."""

    def __init__(
        self,
        machines: HostMachines,
        level: Callable[[str], float],
        send: Callable[[NodeId, Message], None],
        note: Callable[..., None],
        failed: Callable[[str], None],
    ) -> None:
        self.machines, self.level, self.send, self.note, self.failed = machines, level, send, note, failed
        self._rates: dict[NodeId, int] = {}
        """Bytes per second of the nodes whose sending is limited."""

    def admit(self, order: LaunchOrder) -> Place:
        """The place of a node that was not there before, with its limits; raises ``ValueError``: there is none."""
        self.machines.admit(order.node, order.not_on, cores=order.cpu_cores, memory_bytes=order.memory_bytes)
        try:
            if order.cpu_cores is not None:
                self._set_cores(order.node, order.cpu_cores)
            if order.memory_bytes is not None:
                held = self.machines.groups[order.node].set_memory_bytes(order.memory_bytes)
                self.note("Enforced", node=order.node, memory_bytes=held)
        except QuotaRefused:
            self.machines.dismiss(order.node)
            raise
        return self.machines.places[order.node]

    def dismiss(self, node: NodeId) -> None:
        """A node has left for good."""
        self._rates.pop(node, None)
        self.machines.dismiss(str(node))

    def allocate(self, node: NodeId, cpu_cores: float | None, link_bytes_per_s: float | None) -> None:
        """A node may use so much from now on; None: unlimited. A limit that cannot be set ends the run."""
        try:
            if cpu_cores != self.machines.allocated.get(str(node)):
                self._set_cores(str(node), cpu_cores)
        except (ValueError, OSError) as error:
            self.failed(f"{node}: its cores could not be allocated: {error}")
        if link_bytes_per_s is not None:
            self._rates[node] = max(1, round(link_bytes_per_s))
            self.send(node, Pace(bytes_per_s=self._rates[node]))
        elif self._rates.pop(node, None) is not None:
            self.send(node, Pace())

    def ready(self, node: NodeId) -> None:
        """The next incarnation of a node is built: it sends as slowly as its predecessor."""
        if (rate := self._rates.get(node)) is not None:
            self.send(node, Pace(bytes_per_s=rate))

    def paced(self, node: NodeId, message: Paced) -> None:
        """A task says what its sockets are limited to."""
        self.note("Enforced", node=str(node), link_bytes_per_s=message.bytes_per_s)

    def _set_cores(self, node: str, cores: float | None) -> None:
        self.machines.allocate(node, cores)
        held = self.machines.groups[node].set_cores(self.machines.quota(node, self.level(node)))
        self.note("Enforced", node=node, cpu_cores=held)
