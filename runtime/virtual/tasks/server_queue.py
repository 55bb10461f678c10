"""The orders of one task on shared machines: a queue, with durations known only at the end.

That of a server has a compiled twin (``compiled/orders.h``), which calls nothing in Python for an update.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import final

from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import Machines, Then

Work = Callable[[Then], object]
"""Work that calls its argument at the end."""
Injected = tuple[float, float]
"""Seconds, and a fraction of what the work takes, for which a server sleeps after an update."""


class Turns:
    """The orders of one task, carried out one after another; none begins while it is paused."""

    def __init__(self, machines: Machines, task: str) -> None:
        self.machines, self.task = machines, task
        self.void = False
        self._orders: deque[Work] = deque()
        self._busy = self._looking = False

    def put(self, work: Work) -> None:
        """An order has reached the task."""
        if not self.void:
            self._orders.append(work)
            self._next()

    def _next(self) -> None:
        """Start the next orders; a loop, because many orders take no time at all."""
        if self._looking:
            return
        self._looking = True
        while self._orders and not self._busy:
            self._busy = True
            self.machines.awake(self.task, partial(self._orders.popleft(), self._done))
        self._looking = False

    def _done(self) -> None:
        self._busy = False
        self._next()


@final
class Queue(Turns):
    """The orders of one server.

    Args:
        machines: that the server shares.
        task: its name.
        costs: of an update.
        num_bytes: of its range of the parameters.
        cores: of the servers for which some were allocated, by name.
        was_busy: is called with the seconds of an update, and with those of them that were injected.
    """

    def __init__(
        self,
        machines: Machines,
        task: str,
        costs: Costs,
        num_bytes: int,
        cores: Mapping[str, float],
        was_busy: Callable[[float, float], object],
    ) -> None:
        super().__init__(machines, task)
        self.costs, self.num_bytes = costs, num_bytes
        self.cores, self.was_busy = cores, was_busy

    def update(self, at_s: float, num_grads: int, injected: Injected) -> None:
        """Order an update of so many gradients, which reaches the server at ``at_s``."""
        self.machines.clock.at(at_s, MACHINE, self.put, partial(self._update, num_grads, injected))

    def _update(self, num_grads: int, injected: Injected, done: Then) -> None:
        costs = self.costs
        seconds = costs.update_s(self.num_bytes, num_grads)
        seconds *= costs.stretch(costs.server_cores, self.cores.get(self.task))
        self.machines.compute(self.task, seconds, partial(self._updated, self.machines.clock.now, injected, done))

    def _updated(self, begun_s: float, injected: Injected, done: Then) -> None:
        """After the work it sleeps for its injected delay."""
        now = self.machines.clock.now
        asked_s = injected[0] + injected[1] * (now - begun_s)
        end = partial(self._ended, begun_s, now, done)
        if asked_s > 0:
            self.machines.sleep(self.task, asked_s + self.costs.sleep_overshoot_s, end)
        else:
            end()

    def _ended(self, begun_s: float, updated_s: float, done: Then) -> None:
        now = self.machines.clock.now
        self.was_busy(now - begun_s, now - updated_s)
        done()
