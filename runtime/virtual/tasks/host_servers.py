"""Servers on shared machines: each works through a queue of orders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, final

from runtime.core.executor import Disturb
from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import Then, Work
from runtime.virtual.machines.kernel import kernel
from runtime.virtual.machines.tenancy import Machines
from runtime.virtual.tasks.servers import ServerGroup

if TYPE_CHECKING:
    from runtime.virtual.compiled._hosts import Queue


@final
class HostServers(ServerGroup):
    """Updates take processor time, checkpoints disk time; a delivery takes no time, its message does."""

    def __init__(
        self, machines: Machines, costs: Costs, num_parameters: int, num_servers: int, disturb: Disturb
    ) -> None:
        super().__init__(costs, num_parameters, num_servers, disturb)
        self.machines = machines
        self.queues: list[Queue] = []
        """By place; the list remains the same one when others take their places."""
        self._begin_queues()

    def _begin_queues(self) -> None:
        work, clock, there = self.machines.task_work, self.machines.clock, self.machines.name_of
        self.queues[:] = [
            kernel().Queue(work, clock, name, there(name), self.costs, num_bytes, self.cores, self.reported, place)
            for place, (name, num_bytes) in enumerate(zip(self.names, self.num_bytes, strict=True))
        ]

    def schedule_update(self, sent_s: float, num_grads: int) -> None:
        kernel().order_updates(self.queues, sent_s + self.costs.control_s, num_grads, self.disturb, sent_s)

    def deliver(self, sent_s: float, deliver: Callable[[int], object]) -> None:
        """Each server calls ``deliver(server)`` when it reaches this order."""
        for server in range(len(self.names)):
            self._order(server, sent_s, partial(self._at_once, partial(deliver, server)))

    def take(self, server: int, then: Then) -> None:
        """A gradient has reached a server, which takes it after its earlier orders."""
        self.queues[server].put(partial(self._at_once, then))

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
        for queue in self.queues:
            if not queue.void:
                queue.void = True
                self.machines.forget(queue.task)
        self._begin_queues()

    def leave(self, server: str) -> None:
        for queue in self.queues:
            if queue.task == server:
                queue.void = True

    def begin_again(self, at_s: float) -> None:
        """Nothing to do: no order was given since they were halted."""

    def _order(self, server: int, sent_s: float, work: Work) -> None:
        reached_s = sent_s + self.costs.control_s
        self.machines.clock.at(reached_s, MACHINE, self.queues[server].put, work)

    @staticmethod
    def _at_once(act: Then, done: Then) -> None:
        act()
        done()
