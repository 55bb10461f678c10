"""Parameters and gradients on shared links.

Every worker has an uplink and a downlink of one rate, and so has every server. All servers hold equal ranges and all
have equal links, so a worker's flows to them run in step: they are one flow through a pool of the servers' links.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from runtime.virtual.clock import MACHINE, NETWORK, Clock
from runtime.virtual.fluid import Fluid

Key = tuple[str, int]
"""``pull`` or ``push``, and the worker."""


class Network:
    """Transfers share the links max-min fairly; each calls back when its last byte is through."""

    def __init__(self, clock: Clock, link_bytes_per_s: float, num_workers: int, num_servers: int) -> None:
        self.clock = clock
        rate, pool = link_bytes_per_s, link_bytes_per_s * num_servers
        links = {f"{way}:{worker}": rate for worker in range(num_workers) for way in ("pull", "push")}
        self.fluid = Fluid({**links, "pull:servers": pool, "push:servers": pool})
        self._then: dict[Key, Callable[[], None]] = {}
        self._settling = False
        self._due_s = math.inf

    def transfer(self, key: Key, num_bytes: int, then: Callable[[], None]) -> None:
        """Begin now; ``then()`` is called at the end."""
        way, worker = key
        self._then[key] = then
        self.fluid.start(self.clock.now, key, float(num_bytes), (f"{way}:{worker}", f"{way}:servers"))
        self._settle_soon()

    def abandon(self, key: Key) -> None:
        """End a transfer early, if it is under way."""
        if self._then.pop(key, None) is not None:
            self.fluid.stop(self.clock.now, key)
            self._settle_soon()

    def _settle_soon(self) -> None:
        """Once for everything that begins or ends at this moment."""
        if not self._settling:
            self._settling = True
            self.clock.at(self.clock.now, NETWORK, self._settle)

    def _settle(self) -> None:
        self._settling = False
        due_s = self.fluid.next_s
        if due_s != self._due_s and math.isfinite(due_s):
            self.clock.at(due_s, MACHINE, self._complete)
        self._due_s = due_s

    def _complete(self) -> None:
        """Whatever is through; after a change of plan this may be nothing."""
        for key in self.fluid.completed(self.clock.now):
            if (then := self._then.pop(key, None)) is not None:  # type: ignore[call-overload]
                then()
        self._due_s = math.inf
        self._settle_soon()
