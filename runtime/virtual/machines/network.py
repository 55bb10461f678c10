"""Parameters and gradients on shared links, where all links are equal and undisturbed.

Every worker and every server has an uplink and a downlink of one rate. All servers hold equal ranges and have equal
links, so a worker's flows to them run in step: they are modelled as one flow through a pool of links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from runtime.virtual.clock import Clock
from runtime.virtual.machines.kernel import kernel
from strategies.protocol import NodeId

if TYPE_CHECKING:
    from runtime.virtual.compiled._hosts import Sharing

Key = tuple[str, int]
"""``pull`` or ``push``, and the worker; for transfers to replicas the sender, and a number."""


class Network:
    """Transfers share the links max-min fairly; each calls back when its last byte has arrived."""

    def __init__(self, clock: Clock, link_bytes_per_s: float, num_workers: int, num_servers: int) -> None:
        self.link_bytes_per_s = link_bytes_per_s
        pool = link_bytes_per_s * num_servers
        self._carried = 0
        self._senders: defaultdict[str, list[Key]] = defaultdict(list)
        self._links: Sharing = kernel().Sharing(clock, {"pull:servers": pool, "push:servers": pool})
        for worker in range(num_workers):
            self.add(worker)

    def add(self, worker: int) -> None:
        """A worker's link, each way."""
        self._links.add({f"{way}:{worker}": self.link_bytes_per_s for way in ("pull", "push")})

    def transfer(self, key: Key, num_bytes: int, then: Callable[[], None]) -> None:
        """Begin a transfer now; ``then()`` is called at the end."""
        way, worker = key
        self._links.start(key, float(num_bytes), (f"{way}:{worker}", f"{way}:servers"), then)

    def add_replica(self, replica: str) -> None:
        """The link into a replica of the servers."""
        self._links.add({f"into:{replica}": self.link_bytes_per_s})

    def carry(self, sender: str, replica: str, num_bytes: int, then: Callable[[], None]) -> None:
        """Send something from a worker or the server to a replica, sharing links with all else."""
        role, number = NodeId.parse(sender)
        self._carried += 1
        start = f"push:{number}" if role == "worker" else "pull:servers"
        key = (sender, self._carried)
        self._senders[sender].append(key)
        self._links.start(key, float(num_bytes), (start, f"into:{replica}"), partial(self._there, key, then))

    def _there(self, key: Key, then: Callable[[], None]) -> None:
        self._senders[key[0]].remove(key)
        then()

    def forget(self, sender: str) -> None:
        """Drop the messages that a task was sending to replicas."""
        for key in self._senders.pop(sender, []):
            self._links.stop(key)

    def abandon(self, key: Key) -> None:
        """End a transfer early, if one is in progress."""
        self._links.stop(key)
