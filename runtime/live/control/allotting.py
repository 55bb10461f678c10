"""The allotments of a live job's nodes: cores, memory, and the rate at which they send.

Cores are limited by control groups or, without them, by the agent (duty cycles, cpulimit); where they are requested
(``strategy.cores_as``), they are a share of the host, by control groups only. Memory is limited by these, too, the rate
by the node's own sockets. A node keeps what it was given through all its incarnations. Every limit is read
back, and noted (``Enforced``). Where jobs share hosts, prevention limits nodes, too: the smaller limit is in force.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from injectors.actuators.duty import MIN_CORES, check_cores
from runtime.core.node_orders import LaunchOrder
from runtime.live.machines.machines import HostMachines
from runtime.live.transport.address import least
from runtime.live.transport.messages import Actuated, Message, Pace, Paced
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId


class Allotter:
    """Allots the cores, memory and rates that a strategy asks for.

    ``level`` gives the plan's present throttling of a target; ``send`` sends a message to a node's task; ``throttle``
    lets the agent limit a target's cores (:meth:`runtime.live.control.injecting.Injector.throttle`).
    """

    def __init__(
        self,
        machines: HostMachines,
        level: Callable[[str], float],
        send: Callable[[NodeId, Message], None],
        throttle: Callable[[str, float | None, str, Callable[[Actuated], None]], None],
        note: Callable[..., None],
        failed: Callable[[str], None],
    ) -> None:
        self.machines, self.level, self.send, self.throttle = machines, level, send, throttle
        self.note, self.failed = note, failed
        self._rates: dict[NodeId, int] = {}
        """Bytes per second of the nodes whose sending is limited, by connection."""
        self._rates_left: dict[NodeId, int] = {}
        """The same, as other jobs on their hosts leave them."""
        self._memory_bytes: dict[str, int] = {}
        """Memory of the nodes that were launched with a limit."""

    def admit(self, order: LaunchOrder, host: int | None = None) -> Place:
        """The place of a node that was not there before, with its limits; raises ``ValueError``: there is none.

        On hosts it counts on no more cores than others have left there. ``host``: the number of the host, where a
        cluster has chosen it.
        """
        self.machines.admit(order.node, order.not_on, cores=order.cpu_cores, memory_bytes=order.memory_bytes, to=host)
        try:
            if order.cpu_cores is not None:
                self._set_cores(order.node, order.cpu_cores)
            if order.memory_bytes is not None:
                self._set_memory(order.node, order.memory_bytes)
        except ValueError:
            self.machines.dismiss(order.node)
            raise
        return self.machines.places[order.node]

    def moved(self, node: NodeId) -> None:
        """A node has another control group, which gets the limits of the old one."""
        name = str(node)
        if self.machines.share_frac(name) is not None:
            self._enforce_share(name)
        if self.machines.mechanisms.cpu_groups and self.machines.quota(name, self.level(name)) is not None:
            self._enforce_cores(name)
        if name in self._memory_bytes:
            self._set_memory(name, self._memory_bytes[name])

    def refuses(self, node: NodeId, cpu_cores: float | None) -> str | None:
        """Why a node cannot have so many cores; None: they are reserved on its host."""
        try:
            self.machines.book(str(node), cpu_cores)
        except ValueError as error:
            return str(error)
        return None

    def own_limits(self, task: str) -> tuple[float | None, int | None]:
        """The cores and the memory, in bytes, that a task was given as limits."""
        return self.machines.limit(task), self._memory_bytes.get(task)

    def dismiss(self, node: NodeId) -> None:
        """A node has left for good."""
        self._rates.pop(node, None)
        self._rates_left.pop(node, None)
        self._memory_bytes.pop(str(node), None)
        if str(node) in self.machines.allocated and self.machines.mechanisms.allocations in ("duty", "cpulimit"):
            self.throttle(str(node), None, self.machines.mechanisms.allocations, lambda message: None)
        self.machines.dismiss(str(node))

    def keep(self, nodes: Collection[NodeId]) -> None:
        """All others have left for good."""
        self.machines.dismiss_all_but({str(node) for node in nodes})

    def allocate(self, node: NodeId, cpu_cores: float | None, link_bytes_per_s: float | None) -> None:
        """A node may use so much from now on; None: unlimited. A limit that cannot be set ends the run."""
        try:
            if cpu_cores != self.machines.allocated.get(str(node)):
                self._set_cores(str(node), cpu_cores)
        except (ValueError, OSError) as error:
            self.failed(f"{node}: its cores could not be allocated: {error}")
        if link_bytes_per_s is not None or node in self._rates:
            self._pace(node, self._rates, link_bytes_per_s)

    def leave(self, node: NodeId, cpu_cores: float | None, link_bytes_per_s: float | None) -> None:
        """Other jobs leave a node so much from now on, the rate by connection; None: as much as its own job gives it.

        Fewer cores than a quota can hold become as many as that. A limit that cannot be set ends the run.
        """
        name, left = str(node), self.machines.left
        cores = None if cpu_cores is None else max(cpu_cores, MIN_CORES)
        if cores != left.get(name):
            left.pop(name, None)
            if cores is not None:
                left[name] = cores
            try:
                self._enforce_cores(name)
            except (ValueError, OSError) as error:
                self.failed(f"{node}: its cores could not be limited for other jobs: {error}")
        if link_bytes_per_s is not None or node in self._rates_left:
            self._pace(node, self._rates_left, link_bytes_per_s)

    def _pace(self, node: NodeId, rates: dict[NodeId, int], bytes_per_s: float | None) -> None:
        rates.pop(node, None)
        if bytes_per_s is not None:
            rates[node] = max(1, round(bytes_per_s))
        self.send(node, Pace(bytes_per_s=self._rate(node)))

    def _rate(self, node: NodeId) -> int | None:
        return least(self._rates.get(node), self._rates_left.get(node))

    def ready(self, node: NodeId) -> None:
        """The next incarnation of a node is built: it sends as slowly as its predecessor."""
        if (rate := self._rate(node)) is not None:
            self.send(node, Pace(bytes_per_s=rate))

    def paced(self, node: NodeId, message: Paced) -> None:
        """A task says what its sockets are limited to."""
        self.note("Enforced", node=str(node), link_bytes_per_s=message.bytes_per_s)

    def _set_cores(self, node: str, cores: float | None) -> None:
        self.machines.allocate(node, cores)
        if self.machines.requests:
            self._enforce_share(node)
        else:
            self._enforce_cores(node)

    def _enforce_share(self, node: str) -> None:
        """Give a node the part of its host that it requests, and note how many cores the weight stands for."""
        actual, host = self.machines.groups[node].set_share(self.machines.share_frac(node)), self.machines.host_of(node)
        cores = None if host is None else self.machines.allotment(host)
        self.note("Enforced", node=node, request_cores=None if cores is None else actual * cores, by="cgroup")

    def _enforce_cores(self, node: str) -> None:
        """Limit a node to what is left of its cores by the plan now; raises ``ValueError``: that cannot be done."""
        asked, by = self.machines.quota(node, self.level(node)), self.machines.mechanisms.allocations
        if by in ("duty", "cpulimit"):
            if asked is not None:
                check_cores(node, asked)
            self.throttle(node, asked, by, lambda message: self._on_throttled(node, message))
        else:
            self.note("Enforced", node=node, cpu_cores=self.machines.groups[node].set_cores(asked), by="cgroup")

    def _on_throttled(self, node: str, message: Actuated) -> None:
        """The agent says what a node is limited to."""
        if message.problem:
            self.failed(f"{node}: its cores could not be allocated: {message.problem}")
        else:
            self.note("Enforced", node=node, cpu_cores=message.achieved, by=message.by)

    def _set_memory(self, node: str, memory_bytes: int) -> None:
        actual = self.machines.groups[node].set_memory_bytes(memory_bytes)
        self._memory_bytes[node] = memory_bytes
        self.note("Enforced", node=node, memory_bytes=actual)
