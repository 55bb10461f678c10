"""Tasks on hosts that sum gradients on their way to the servers: gradients of several workers leave as one vector."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import final

import msgspec

from runtime.core.job import SumOrder
from runtime.virtual.costs import Costs
from runtime.virtual.machines.tenancy import Machines
from runtime.virtual.tasks.host_servers import HostServers
from runtime.virtual.tasks.iteration import Iteration


class Sum(msgspec.Struct, eq=False):
    """Gradients that are to be summed, or have been (``sent``); ``void`` if nobody waits for the sum any more."""

    order: SumOrder
    parts: list[Iteration]
    missing: int
    sent: bool = False
    void: bool = False


Summed = Callable[[Sum], None]


@final
class Aggregators:
    """``summed`` is called when all servers have taken a sum.

    A gradient whose worker is lost before the sum is sent is left out of it. Each aggregator adds and sends one sum at
    a time; gradients that workers push meanwhile wait.
    """

    def __init__(
        self, machines: Machines, costs: Costs, servers: HostServers, model_bytes: int, summed: Summed
    ) -> None:
        self.machines, self.costs, self.servers = machines, costs, servers
        self.model_bytes, self.summed = model_bytes, summed
        self._sums: list[Sum] = []
        self._queues: defaultdict[str, deque[Sum]] = defaultdict(deque)
        """Complete sums, by aggregator; it is busy with the first."""

    def begin(self, order: SumOrder, parts: list[Iteration]) -> Sum:
        """These gradients will come, each announced by :meth:`came`."""
        made = Sum(order, parts, len(parts))
        if parts:
            self._sums.append(made)
        return made

    def came(self, made: Sum) -> None:
        """One of them is here."""
        made.missing -= 1
        self._look(made)

    def left(self, iteration: Iteration) -> None:
        """Its worker is lost, whose messages never arrive."""
        for made in [made for made in self._sums if any(part is iteration for part in made.parts)]:
            if made.sent:
                self._leave_alone(made)
                continue
            made.parts = [part for part in made.parts if part is not iteration]
            if iteration.missing:  # it was still on its way
                made.missing -= 1
            self._look(made)

    def _look(self, made: Sum) -> None:
        if made.sent or made.missing > 0:
            return
        made.sent = True
        if not made.parts:
            self._sums.remove(made)
            return
        self._queues[made.order.via].append(made)
        if len(self._queues[made.order.via]) == 1:
            self._add(made)

    def _leave_alone(self, made: Sum) -> None:
        """Nobody waits any more for a sum of lost workers: its remainder is not sent."""
        if not all(part.void for part in made.parts):
            return
        made.void = True
        self._sums.remove(made)
        queue = self._queues[made.order.via]
        if queue[0] is made:
            self.machines.forget(made.order.via)
            self._next(made.order.via)
        else:
            queue.remove(made)

    def _next(self, via: str) -> None:
        queue = self._queues[via]
        queue.popleft()
        if queue:
            self._add(queue[0])

    def _add(self, made: Sum) -> None:
        adding_s = self.costs.update_per_byte_s * self.model_bytes * len(made.parts)
        self.machines.compute(made.order.via, adding_s, partial(self._send_on, made))

    def _send_on(self, made: Sum) -> None:
        made.missing = len(self.servers.names)
        for place, server in enumerate(self.servers.names):
            num_bytes = self.servers.num_bytes[place]
            carry = self.costs.carry_s(num_bytes)
            handed_over = partial(self.servers.take, place, partial(self._on_taken, made))
            path = (made.order.via, server)
            self.machines.send(made.order.via, path, num_bytes, self.costs.latency_s, handed_over, carry)

    def _on_taken(self, made: Sum) -> None:
        made.missing -= 1
        if not made.missing and not made.void:
            self._sums.remove(made)
            self._next(made.order.via)
            self.summed(made)
