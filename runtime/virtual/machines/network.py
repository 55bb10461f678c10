"""Parameters and gradients on shared links, where all links are equal and undisturbed.

Every worker has an uplink and a downlink of one rate, and so has every server. All servers hold equal ranges and all
have equal links, so a worker's flows to them run in step: they are modelled as one flow through a pool of links.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.virtual.clock import Clock
from runtime.virtual.machines.twins import sharing_on

Key = tuple[str, int]
"""``pull`` or ``push``, and the worker."""


class Network:
    """Transfers share the links max-min fairly; each calls back when its last byte has arrived."""

    def __init__(self, clock: Clock, link_bytes_per_s: float, num_workers: int, num_servers: int) -> None:
        self.link_bytes_per_s = link_bytes_per_s
        pool = link_bytes_per_s * num_servers
        self._links = sharing_on(clock, {"pull:servers": pool, "push:servers": pool})
        for worker in range(num_workers):
            self.add(worker)

    def add(self, worker: int) -> None:
        """A worker's link, each way."""
        self._links.add({f"{way}:{worker}": self.link_bytes_per_s for way in ("pull", "push")})

    def transfer(self, key: Key, num_bytes: int, then: Callable[[], None]) -> None:
        """Begin a transfer now; ``then()`` is called at the end."""
        way, worker = key
        self._links.start(key, float(num_bytes), (f"{way}:{worker}", f"{way}:servers"), then)

    def abandon(self, key: Key) -> None:
        """End a transfer early, if one is in progress."""
        self._links.stop(key)
