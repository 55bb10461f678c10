"""The machines of one job: their names, which task is on which, and at which addresses (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from runtime.live.transport.address import LOOPBACK
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId

LOCAL = "local"
"""The node of a job whose tasks are all on this machine."""
SAVED = "parameters.npy"
"""The final parameters, in the directory of the evaluator's machine."""


def room(cores: Mapping[str, int], used: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The cores that tasks leave of every node; less than 0 where they share cores.

    Args:
        cores: of the nodes that may be chosen, in the order of their turns.
        used: the node of every task that there is, and the cores that the task may use.
    """
    left = dict[str, float](cores)
    for node, taken in used:
        if node in left:
            left[node] -= taken
    return left


def roomiest(left: Mapping[str, float], alike: Collection[str], number: int) -> str:
    """The node with the most room; of several, that with the fewest tasks of the role, or the next one in turn.

    Args:
        left: the nodes' room.
        alike: the nodes of all tasks of this task's role.
        number: of the task.
    """
    nodes, there = list(left), Counter(alike)
    turn = number % len(nodes)
    return max((*nodes[turn:], *nodes[:turn]), key=lambda node: (left[node], -there[node]))


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a run; by default only this machine."""

    nodes: tuple[str, ...] = (LOCAL,)
    lease_s: float = 0.0
    """Seconds for which the network may be cut, so that agents of tasks owe no heartbeat for so long at least."""
    addresses: dict[str, str] = {}
    """By node, at which its tasks listen; empty: loopback."""
    listen: str = LOOPBACK
    """Where the coordinator listens."""
    secret: bytes = b""
    """Of the job; empty: a random one."""
    certificate: str = ""
    """Key and certificate of all listening sockets; empty: connections are not encrypted."""
    link_bytes_per_s: float | None = None
    """Rate of each machine's link on the wire, of which a disturbance leaves a part; None: links are not paced."""
    checkpoints: str = ""
    """A directory that all machines share; empty: each has its own."""

    @property
    def elsewhere(self) -> bool:
        """Whether agents have joined from anywhere: nothing here may look at their processes."""
        return bool(self.addresses)

    def node_of(self, tasks: Iterable[str]) -> dict[str, str]:
        """The node of every worker and server, each role round about; other tasks are on the first."""
        if not self.elsewhere:
            return {}
        return {task: self.nodes[NodeId.parse(task).number % len(self.nodes)] for task in tasks}

    def placed(self, places: Mapping[str, Place]) -> dict[str, Place]:
        """``places``, with the addresses at which tasks listen."""
        nodes = self.node_of(places)
        addresses = {task: self.addresses[node] for task, node in nodes.items()}
        return {
            task: msgspec.structs.replace(place, address=addresses[task]) if task in addresses else place
            for task, place in places.items()
        }
