"""How vectors reach replicas on the virtual clock: over the links that all transfers share, where any are modelled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, final

from runtime.virtual.clock import MACHINE, Clock
from runtime.virtual.costs import Costs
from runtime.virtual.machines.network import Network
from runtime.virtual.machines.tenancy import Machines

Way = tuple[str, str]
"""The sender, and the replica."""


class Load(NamedTuple):
    """A vector, or several."""

    num_bytes: int
    then: Callable[[], None]


@final
class Carriers:
    """A task sends one thing after the other to a replica.

    On ``machines``, or on the equal links of a ``network``; with neither, a transfer takes the time of its copying.
    """

    def __init__(self, clock: Clock, costs: Costs, machines: Machines | None, network: Network | None) -> None:
        self.clock, self.costs, self.machines, self.network = clock, costs, machines, network
        self._queues: dict[Way, deque[Load]] = {}
        """The loads of each way; the first travels."""

    def carry(self, sender: str, replica: str, num_bytes: int, then: Callable[[], None]) -> None:
        """Send so many bytes as soon as all before them are there."""
        way = (sender, replica)
        queue = self._queues.setdefault(way, deque())
        queue.append(Load(num_bytes, then))
        if len(queue) == 1:
            self._start(way, queue)

    def _start(self, way: Way, queue: deque[Load]) -> None:
        costs, num_bytes, there = self.costs, queue[0].num_bytes, partial(self._there, way, queue)
        if self.machines is not None:
            carry = costs.carry_s(num_bytes)
            send = partial(self.machines.send, way[0], way, num_bytes, costs.latency_s, there, carry)
            self.machines.awake(way[0], send)
        elif self.network is not None:
            self.network.carry(way[0], way[1], num_bytes, partial(self._copy, num_bytes, there))
        else:
            self._copy(num_bytes, there)

    def _copy(self, num_bytes: int, there: Callable[[], None]) -> None:
        self.clock.at(self.clock.now + self.costs.transfer_s(num_bytes), MACHINE, there)

    def _there(self, way: Way, queue: deque[Load]) -> None:
        if self._queues.get(way) is not queue:  # the sender is lost
            return
        queue.popleft().then()
        if queue:
            self._start(way, queue)

    def forget(self, task: str) -> None:
        """Its process is gone: loads under way never arrive, and waiting loads are not sent."""
        for way in [way for way in self._queues if task in way]:
            if way[0] == task:
                del self._queues[way]
            else:
                queue = self._queues[way]
                while len(queue) > 1:
                    queue.pop()
        if self.machines is not None:
            self.machines.forget(task)
        if self.network is not None:
            self.network.forget(task)
