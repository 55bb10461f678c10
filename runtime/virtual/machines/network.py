"""Parameters and gradients on shared links, where all links are equal and undisturbed.

Every worker has an uplink and a downlink of one rate, and so has every server. All servers hold equal ranges and all
have equal links, so a worker's flows to them run in step: they are modelled as one flow through a pool of links.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.virtual.clock import Clock
from runtime.virtual.machines.sharing import Sharing

Key = tuple[str, int]
"""``pull`` or ``push``, and the worker."""


class Network:
    """Transfers share the links max-min fairly; each calls back when its last byte has arrived."""

    def __init__(self, clock: Clock, link_bytes_per_s: float, num_workers: int, num_servers: int) -> None:
        rate, pool = link_bytes_per_s, link_bytes_per_s * num_servers
        links = {f"{way}:{worker}": rate for worker in range(num_workers) for way in ("pull", "push")}
        self._links = Sharing(clock, {**links, "pull:servers": pool, "push:servers": pool})

    def transfer(self, key: Key, num_bytes: int, then: Callable[[], None]) -> None:
        """Begin a transfer now; ``then()`` is called at the end."""
        way, worker = key
        self._links.start(key, float(num_bytes), (f"{way}:{worker}", f"{way}:servers"), then)

    def abandon(self, key: Key) -> None:
        """End a transfer early, if one is in progress."""
        self._links.stop(key)
