"""The places of a job's nodes on the virtual clock, and their limits there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import final

from runtime.cluster.hosts import Placement
from runtime.virtual.costs import Costs
from runtime.virtual.machines.tenancy import Machines
from runtime.virtual.tasks.iteration import WorkerModel
from runtime.virtual.tasks.servers import ServerGroup
from strategies.protocol import NodeId


@final
class Places:
    """The nodes' hosts (``placement``; None: each has a machine of its own) and machines (None: none are modelled).

    On hosts a node's cores are a quota, within which its work is done, or with ``requests`` a share of its host's that
    is guaranteed; elsewhere its work takes longer in proportion.
    """

    def __init__(
        self,
        placement: Placement | None,
        machines: Machines | None,
        servers: ServerGroup,
        workers: WorkerModel,
        costs: Costs,
        *,
        requests: bool = False,
    ) -> None:
        self.requests = requests
        self.placement, self.machines, self.servers, self.workers = placement, machines, servers, workers
        self._uses = {"worker": costs.worker_cores, "server": costs.server_cores}
        self.leaving: Callable[[NodeId], None] | None = None
        """Called with a node that is about to leave for good, where a cluster gives the places."""

    # ---- nodes that come and go --------------------------------------------------------------------------------------

    def enter(
        self, t: float, node: NodeId, cores: float | None, not_on: Collection[str], to: int | None = None
    ) -> None:
        """A node with a new number, idle from ``t`` on; raises ``ValueError`` if no host takes it.

        ``to``: the number of its host, where a cluster has chosen it.
        """
        task = str(node)
        if self.placement is not None:
            self.placement.add(task, not_on, cores, to)
        if self.machines is not None:
            uses = {} if self.placement is None else {"uses_cores": self._uses[node.role]}
            self.machines.enter(task, self.host_of(task) or task, **uses)
        if node.role == "worker":
            self.workers.add(node.number, t)
        if self.placement is not None:
            self.workers.moved(task, self.placement.host(task).device)
        self.allocate(task, cores)

    def leave(self, node: NodeId) -> None:
        """A node has left for good: its host and its cores are free."""
        task = str(node)
        if self.leaving is not None:
            self.leaving(node)
        self.servers.cores.pop(task, None)
        if node.role == "server":
            self.servers.leave(task)
        else:
            self.workers.cores.pop(node.number, None)
        if self.machines is not None:
            self.machines.dismiss([task])
        if self.placement is not None:
            self.placement.remove(task)

    def move(self, task: str, to: int | None = None, dead: Collection[int] = ()) -> None:
        """A task's next process starts on another host, if there is another; ``to``: its number, where it is given.

        ``dead``: numbers of hosts where nothing starts now, of which one is chosen only if there is no other.
        """
        if self.placement is not None and self.machines is not None and self.placement.move(task, to, dead):
            self.machines.move(task, f"host:{self.placement.host_of[task]}")
            self.workers.moved(task, self.placement.host(task).device)

    # ---- where they are ----------------------------------------------------------------------------------------------

    def host_of(self, task: str) -> str | None:
        """The name of a task's host; None without hosts, and for a task that has left."""
        return None if self.placement is None else self.placement.name_of(task)

    def tasks_on(self, target: str) -> list[str]:
        """The tasks of a target now: itself, or those on a host."""
        role, number = NodeId.parse(target)
        return [target] if self.placement is None or role != "host" else list(self.placement.tasks_on[number])

    # ---- what they may use -------------------------------------------------------------------------------------------

    def book(self, task: str, cores: float | None, link_bytes_per_s: float | None) -> str | None:
        """Reserve what a node is about to be given; returns why that is impossible, None if it is not."""
        if self.placement is None:
            if link_bytes_per_s is None:
                return None
            return f"link_bytes_per_s={link_bytes_per_s:g}: without hosts, the virtual clock models no task's link"
        if self.host_of(task) is None:
            return "has left"
        try:
            self.placement.allocate(task, cores)
        except ValueError as error:
            return str(error)
        return None

    def allocate(self, task: str, cores: float | None, link_bytes_per_s: float | None = None) -> None:
        """A node may use so much from now on (cores without hosts: from its next work on); None: as much as it can."""
        role, number = NodeId.parse(task)
        if self.placement is not None:
            if self.machines is not None:
                if self.requests:
                    self.machines.request(task, cores)
                self.machines.allot(task, None if self.requests else cores, link_bytes_per_s)
        elif role == "server":
            self.servers.allocate(task, cores)
        else:
            self.workers.cores.pop(number, None)
            if cores is not None:
                self.workers.cores[number] = cores

    def cores_of(self, task: str) -> tuple[float, float | None]:
        """Cores that a task uses while it works, and the limit that it was given."""
        role, number = NodeId.parse(task)
        if self.placement is not None:
            has = None if self.requests else self.placement.cores.get(task)
        else:
            has = self.servers.cores.get(task) if role == "server" else self.workers.cores.get(number)
        uses = self._uses[role]
        return (uses if has is None else min(uses, has)), has
