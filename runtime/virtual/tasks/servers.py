"""The parameter servers on the virtual clock: each carries out the coordinator's orders one after another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, final

from runtime.core.executor import Disturb
from runtime.core.job import ApplyOrder
from runtime.core.layout import Layout
from runtime.core.vectors import PARAMETER_BYTES
from runtime.virtual.costs import Costs

REPORT_EVERY_S = 0.5
"""Virtual seconds between two reports of the servers' work."""


class BusyServer(NamedTuple):
    """A server's report: see :class:`strategies.protocol.Updated`."""

    server: int
    updates: int
    busy_s: float
    injected_s: float


class ServerGroup(ABC):
    """The common interface of all servers that hold parameters, in the order of the vector.

    The server at place j has a range of ``num_bytes[j]``, the name ``names[j]`` and the number ``numbers[j]``.
    """

    held_s = 0.0
    """When the parameters of the last update may be sent, if a delay holds up that update alone."""

    def __init__(self, costs: Costs, num_parameters: int, num_servers: int, disturb: Disturb) -> None:
        self.costs, self.disturb, self.num_parameters = costs, disturb, num_parameters
        self.cores: dict[str, float] = {}
        """Cores of the servers for which some were allocated."""
        self._shares = Layout.initial(0, num_servers).shares
        self._lay_out(Layout.initial(0, num_servers))

    def _lay_out(self, layout: Layout) -> None:
        self.num_bytes = [PARAMETER_BYTES * (hi - lo) for lo, hi in layout.ranges(self.num_parameters).values()]
        self.names = [str(server) for server in layout.holders]
        self.numbers = [server.number for server in layout.holders]
        self.reported: list[list[float]] = [[0, 0.0, 0.0] for _ in self.names]
        self._times: dict[int, list[float]] = {}
        """Seconds of an update of so many gradients, by place; as long as nobody gets other cores."""

    def divide(self, layout: Layout) -> None:
        """These servers hold the parameters from now on; all are halted."""
        if layout.shares != self._shares:
            self._shares = layout.shares
            self._lay_out(layout)
            self.halt()

    def allocate(self, server: str, cores: float | None) -> None:
        """Set the cores that a server may use from its next order on; None for as many as it can use."""
        self.cores.pop(server, None)
        if cores is not None:
            self.cores[server] = cores
        self._times.clear()

    def update_s(self, place: int, num_grads: int) -> float:
        """Seconds of one update on the server at this place, with the cores that it has."""
        return self.costs.update_s(self.num_bytes[place], num_grads) * self._stretch(place)

    def _stretch(self, place: int) -> float:
        """Return the factor by which its work takes longer since it has too few cores."""
        return self.costs.stretch(self.costs.server_cores, self.cores.get(self.names[place]))

    def carry_out(self, order: ApplyOrder, sent_s: float) -> None:
        """Begin the coordinator's update, ordered at ``sent_s``."""
        self.schedule_update(sent_s, len(order.grads) if order.vectors is None else order.vectors)

    @abstractmethod
    def schedule_update(self, sent_s: float, num_grads: int) -> None:
        """Order an update of ``num_grads`` gradients from all servers."""

    def free(self, sent_s: float, then: Callable[[float], object]) -> None:
        """Call ``then`` when all servers have done their orders from before ``sent_s``."""
        raise NotImplementedError("there are no servers")

    def inner_products(self, server: int, sent_s: float, then: Callable[[float], object]) -> None:
        """A server compares a gradient with the reference; ``then`` is called at its end."""
        raise NotImplementedError("there are no servers that could compare gradients")

    @property
    def tasks(self) -> list[str]:
        """Their names on machines, where they are tasks of their own."""
        return self.names

    def traffic(self) -> tuple[float, float]:
        """Return a worker's additional work for an iteration: bytes that it sends, core-seconds of an update."""
        return float(sum(self.num_bytes)), 0.0

    @property
    def sizes(self) -> list[int]:
        """Elements of the parameter vector that each of them holds, by place."""
        return [num_bytes // PARAMETER_BYTES for num_bytes in self.num_bytes]

    def measure(self, place: int, sent_s: float, then: Callable[[float], object]) -> None:
        """A server computes its part of a squared norm: one more pass, like a score; ``then`` is called at its end."""
        self.inner_products(place, sent_s, then)

    @abstractmethod
    def store(self, sent_s: float, then: Callable[[float], object]) -> None:
        """All servers write a checkpoint; ``then`` is called when the last has done so."""

    @abstractmethod
    def halt(self) -> None:
        """Void all work in progress: one of them is lost."""

    def leave(self, server: str) -> None:  # noqa: B027  (without hosts nothing is pending there)
        """A server has left for good, and gets no orders any more."""

    @abstractmethod
    def begin_again(self, at_s: float) -> None:
        """All servers have restored a checkpoint and are idle."""

    def restore_s(self) -> float:
        """Seconds to read a checkpoint: the time of the largest part."""
        return max(self.costs.checkpoint_s(num_bytes) for num_bytes in self.num_bytes)

    def report(self) -> list[BusyServer]:
        """The work of each server since the last report; idle ones are omitted."""
        told = []
        for place, (updates, busy_s, injected_s) in enumerate(self.reported):
            if updates:
                told.append(BusyServer(self.numbers[place], int(updates), busy_s, injected_s))
                self.reported[place] = [0, 0.0, 0.0]
        return told

    def _compare_s(self, server: int) -> float:
        """Seconds of a score: one pass over a gradient and the reference."""
        return self.costs.update_per_byte_s * self.num_bytes[server] * self._stretch(server)

    def _was_busy(self, server: int, seconds: float, injected_s: float) -> None:
        """Count the time of one more update."""
        done = self.reported[server]
        done[0] += 1
        done[1] += seconds
        done[2] += injected_s


@final
class Servers(ServerGroup):
    """Servers whose state is ``free_s[j]``, when server j will have done all its orders so far.

    With ``concurrent_delays`` injected delays do not count there; the delays of the last update end at ``held_s``.
    """

    def __init__(self, costs: Costs, num_parameters: int, num_servers: int, disturb: Disturb) -> None:
        super().__init__(costs, num_parameters, num_servers, disturb)
        self.free_s = [0.0] * num_servers
        self.idle_s = 0.0

    def schedule_update(self, sent_s: float, num_grads: int) -> None:
        times = self._times.get(num_grads)
        if times is None:
            times = self._times[num_grads] = [self.update_s(place, num_grads) for place in range(len(self.names))]
        reached, free_s, held_s = sent_s + self.costs.control_s, self.free_s, 0.0
        for place, (name, busy_s) in enumerate(zip(self.names, times, strict=True)):
            delay_s, slowdown_frac = self.disturb(name, sent_s)
            injected_s = self.costs.slept_s(delay_s + slowdown_frac * busy_s)
            begun_s = free_s[place]
            if self.costs.concurrent_delays:
                free_s[place] = max(begun_s, reached) + busy_s
                held_s = max(held_s, free_s[place] + injected_s)
            else:
                free_s[place] = (begun_s if begun_s > reached else reached) + busy_s + injected_s
            self._was_busy(place, busy_s + injected_s, injected_s)
        self.idle_s, self.held_s = max(free_s), held_s

    def free(self, sent_s: float, then: Callable[[float], object]) -> None:
        then(max(sent_s + self.costs.control_s, self.idle_s))

    def inner_products(self, server: int, sent_s: float, then: Callable[[float], object]) -> None:
        seconds = self._compare_s(server)
        self.free_s[server] = max(self.free_s[server], sent_s + self.costs.control_s) + seconds
        self.reported[server][1] += seconds
        self.idle_s = max(self.free_s)
        then(self.free_s[server])

    def save(self, sent_s: float) -> float:
        """All servers write a checkpoint; returns when the last has done so."""
        reached = sent_s + self.costs.control_s
        for server, num_bytes in enumerate(self.num_bytes):
            self.free_s[server] = max(self.free_s[server], reached) + self.costs.checkpoint_s(num_bytes)
        self.idle_s = max(self.free_s)
        return self.idle_s

    def store(self, sent_s: float, then: Callable[[float], object]) -> None:
        then(self.save(sent_s))

    def halt(self) -> None:
        """Nothing to do: no callback is pending."""

    def begin_again(self, at_s: float) -> None:
        self.free_s = [at_s] * len(self.num_bytes)
        self.idle_s, self.held_s = at_s, 0.0
