"""Servers on shared machines: each works through a queue, with durations known only at the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import final

from runtime.core.executor import Disturb
from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import Machines, Then
from runtime.virtual.tasks.servers import ServerGroup

Work = Callable[[Then], object]
"""Work that calls its argument at the end."""


@final
class Queue:
    """The orders of one server, carried out one after another; none begins while it is paused."""

    def __init__(self, machines: Machines, task: str) -> None:
        self.machines, self.task = machines, task
        self.void = False
        self._orders: deque[Work] = deque()
        self._busy = self._looking = False

    def put(self, work: Work) -> None:
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
class HostServers(ServerGroup):
    """Updates take processor time, checkpoints disk time; a delivery takes no time, its message does."""

    def __init__(
        self, machines: Machines, costs: Costs, num_parameters: int, num_servers: int, disturb: Disturb
    ) -> None:
        super().__init__(costs, num_parameters, num_servers, disturb)
        self.machines = machines
        self._queues = [Queue(machines, name) for name in self.names]

    def update(self, sent_s: float, num_grads: int) -> None:
        for server, name in enumerate(self.names):
            self._order(server, sent_s, partial(self._update, server, num_grads, self.disturb(name, sent_s)))

    def deliver(self, sent_s: float, deliver: Callable[[int], object]) -> None:
        """Each server calls ``deliver(server)`` when it reaches this order."""
        for server in range(len(self.names)):
            self._order(server, sent_s, partial(self._at_once, partial(deliver, server)))

    def take(self, server: int, then: Then) -> None:
        """A gradient has reached a server, which takes it after its earlier orders."""
        self._queues[server].put(partial(self._at_once, then))

    def free(self, sent_s: float, then: Callable[[float], object]) -> None:
        self._when_all(sent_s, then, lambda server, done: done())

    def inner_products(self, server: int, sent_s: float, then: Callable[[float], object]) -> None:
        def compared(begun_s: float, done: Then) -> None:
            now = self.machines.clock.now
            self.reported[server][1] += now - begun_s
            then(now)
            done()

        def compare(done: Then) -> None:
            end = partial(compared, self.machines.clock.now, done)
            self.machines.compute(self.names[server], self._compare_s(server), end)

        self._order(server, sent_s, compare)

    def store(self, sent_s: float, then: Callable[[float], object]) -> None:
        def write(server: int, written: Then) -> None:
            self.machines.sleep(self.names[server], self.costs.checkpoint_s(self.num_bytes[server]), written)

        self._when_all(sent_s, then, write)

    def _when_all(self, sent_s: float, then: Callable[[float], object], work: Callable[[int, Then], object]) -> None:
        """Order ``work(server, at its end)`` of every server; ``then`` is called when the last has done it."""
        working = set(range(len(self.names)))

        def ended(server: int, done: Then) -> None:
            working.discard(server)
            if not working:
                then(self.machines.clock.now)
            done()

        def begin(server: int, done: Then) -> None:
            work(server, partial(ended, server, done))

        for server in range(len(self.names)):
            self._order(server, sent_s, partial(begin, server))

    def halt(self) -> None:
        for queue in self._queues:
            if not queue.void:
                queue.void = True
                self.machines.forget(queue.task)
        self._queues = [Queue(self.machines, name) for name in self.names]

    def leave(self, server: str) -> None:
        for queue in self._queues:
            if queue.task == server:
                queue.void = True

    def begin_again(self, at_s: float) -> None:
        """Nothing to do: no order was given since they were halted."""

    def _order(self, server: int, sent_s: float, work: Work) -> None:
        reached_s = sent_s + self.costs.control_s
        self.machines.clock.at(reached_s, MACHINE, self._queues[server].put, work)

    @staticmethod
    def _at_once(act: Then, done: Then) -> None:
        act()
        done()

    # ---- an update ---------------------------------------------------------------------------------------------------

    def _update(self, server: int, num_grads: int, injected: tuple[float, float], done: Then) -> None:
        seconds = self.update_s(server, num_grads)
        updated = partial(self._updated, server, self.machines.clock.now, injected, done)
        self.machines.compute(self.names[server], seconds, updated)

    def _updated(self, server: int, begun_s: float, injected: tuple[float, float], done: Then) -> None:
        """After the work it sleeps for its injected delay."""
        now = self.machines.clock.now
        asked_s = injected[0] + injected[1] * (now - begun_s)
        end = partial(self._ended, server, begun_s, now, done)
        if asked_s > 0:
            self.machines.sleep(self.names[server], asked_s + self.costs.sleep_overshoot_s, end)
        else:
            end()

    def _ended(self, server: int, begun_s: float, updated_s: float, done: Then) -> None:
        now = self.machines.clock.now
        self._was_busy(server, now - begun_s, now - updated_s)
        done()
