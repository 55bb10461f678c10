"""Bandwidths of links, as far as transfers have shown them, and overdue transfers (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median
from typing import final

from strategies.mlfabric.order import Aggregator
from strategies.protocol import NodeId, Started

LATE_FACTOR = 4.0
"""Planned durations after which a transfer is overdue, where the configuration names no other number."""
NEVER = 1e9
"""Factor from which on nothing is ever overdue."""
LEAST_S = 0.05
"""Nothing is overdue before: orders and reports take time that no plan knows, such as a busy machine's."""


@final
class Expected:
    """Transfers on their way; one is overdue ``factor`` times its planned duration after it was sent."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._due_s: dict[int, float] = {}
        self._planned_s: dict[int, float] = {}

    def note_sent(self, grads: Iterable[int], t: float, planned_s: float, sending_s: float) -> None:
        """These begin now, and should take ``planned_s``, of which data flows for ``sending_s``."""
        for grad in grads:
            if self._factor < NEVER:
                self._due_s[grad] = t + max(LEAST_S, self._factor * planned_s)
            self._planned_s[grad] = sending_s

    def end(self, grad: int) -> float:
        """It has arrived, or never will; returns for how long data should have flowed (0: that is not known)."""
        self._due_s.pop(grad, None)
        return self._planned_s.pop(grad, 0.0)

    def overdue(self, t: float) -> list[int]:
        """Gradients that should have arrived; each is named once."""
        found = [grad for grad, due_s in self._due_s.items() if due_s <= t]
        for grad in found:
            del self._due_s[grad]
        return found

    @property
    def travelling(self) -> int:
        """How many are on their way."""
        return len(self._planned_s)

    @property
    def next_s(self) -> float:
        """When the next is overdue; infinite if none will be."""
        return min(self._due_s.values(), default=math.inf)


SERVERS = "servers"
"""The links into all servers together: a gradient goes to each of them at once, in equal parts."""
FIRST_BYTES_PER_S = 1e6
"""Assumed of all alike where no link has a limit, until one transfer has been measured."""


@final
class Bandwidths:
    """Bytes per second of workers' uplinks and of the way into the servers.

    Uplinks begin with the limits that :class:`Started` names and follow each transfer by a moving average with weight
    ``smoothing``. Workers of one host have one uplink.
    """

    def __init__(self, started: Started, smoothing: float) -> None:
        self._smoothing, self._places = smoothing, dict(started.places)
        self._limits = started.links
        names = [str(NodeId.server(server)) for server in range(started.num_servers)]
        self._serving = dict.fromkeys(self._places.get(name, name) for name in names)
        inward = [self._limits.get(place) for place in self._serving]
        self._inward = sum(rate for rate in inward if rate) if all(inward) else None
        self._up: dict[str, float] = {}

    def place(self, worker: int, place: str) -> None:
        """A worker has come, or come back, on this host."""
        self._places[str(NodeId.worker(worker))] = place

    def path(self, worker: int) -> tuple[str, str]:
        """The links from a worker to the servers."""
        return self._uplink(worker), SERVERS

    def _uplink(self, worker: int) -> str:
        node = str(NodeId.worker(worker))
        return self._places.get(node, node)

    def _rate(self, uplink: str) -> float:
        if (known := self._up.get(uplink) or self._limits.get(uplink)) is not None:
            return known
        others = [*self._up.values(), *self._limits.values()]
        return median(others) if others else FIRST_BYTES_PER_S

    def links(self, workers: list[int]) -> dict[str, float]:
        """All links that these workers need; without a known limit the servers take as much as the fastest sends."""
        found = {uplink: self._rate(uplink) for uplink in map(self._uplink, workers)}
        inward = max(found.values(), default=FIRST_BYTES_PER_S) if self._inward is None else self._inward
        return {**found, SERVERS: inward}

    def aggregators(self, count: int) -> tuple[list[Aggregator], dict[str, float]]:
        """Nodes that may sum gradients, and the links of their hosts, each way."""
        found = []
        links: dict[str, float] = {}
        for number in range(count):
            name = str(NodeId.aggregator(number))
            host = self._places.get(name, name)
            links[f"into {host}"] = self._rate(host)
            links[host] = self._rate(host)
            found.append(Aggregator(name=name, inward=(f"into {host}",), outward=(host, SERVERS)))
        return found, links

    def alone_s(self, worker: int, num_bytes: int) -> float:
        """Seconds of a transfer with the worker's uplink for itself."""
        return num_bytes / self._rate(self._uplink(worker))

    def note_time(self, worker: int, planned_s: float, send_s: float) -> None:
        """A transfer of this worker took ``send_s`` instead of ``planned_s``: its uplink is slower by that.

        A transfer within a server's host says nothing about a link.
        """
        uplink = self._uplink(worker)
        if planned_s <= 0 or send_s <= 0 or uplink in self._serving:
            return
        measured = self._rate(uplink) * planned_s / send_s
        before = self._up.get(uplink, self._limits.get(uplink, measured))
        self._up[uplink] = before + self._smoothing * (measured - before)
