"""An aggregator: workers push gradients to it, and it pushes their sums to all servers, one after the other.

One thread receives, another adds and sends, so that receiving does not wait for sending. They communicate by two
queues. A sum adds its members in the order in which its command names them, not in the order of their arrival.
"""

from __future__ import annotations

import os
import queue
import selectors
import threading
import time
from typing import Any

from runtime.backends.initial import Initial
from runtime.live.tasks.client import attach
from runtime.live.tasks.receiver import Receiver
from runtime.live.tasks.reduction import ReduceBuffer, Sum
from runtime.live.transport.auth import Identity
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import (
    Attach,
    Exclude,
    Gather,
    Goodbye,
    LinkLost,
    Message,
    Summed,
)
from runtime.live.transport.task_spec import TaskSpec


class Aggregator(Receiver):
    """Its own process; of workers it takes gradients, of the coordinator the orders which of them to sum."""

    callers = ("worker",)

    def __init__(self, spec: TaskSpec, identity: Identity, links: ServerLinks) -> None:
        self.reduction = ReduceBuffer(links.num_floats, self._complete)
        self.outbound = Outbound(links)
        super().__init__(spec, identity, links.num_floats)
        self.selector.register(self.outbound.wakes, selectors.EVENT_READ, self._tell)

    @property
    def sink(self) -> ReduceBuffer:
        """Where gradients are held."""
        return self.reduction

    def take(self, message: Message) -> None:
        match message:
            case Gather():
                self.reduction.gather(message)
            case Exclude():
                self.reduction.exclude(message.grads)
            case Attach():
                self._begin_again(message)
            case Goodbye():
                self.running = False
            case _:
                raise RuntimeError(f"an aggregator cannot obey {message}")

    def _begin_again(self, order: Attach) -> None:
        """All parameters are of another generation, if there was one: no earlier gradient counts."""
        for link in list(self.links.values()):
            self.hang_up(link)
        self.reduction.reset()
        self.generation = order.generation
        self.outbound.put(order)

    def _complete(self, made: Sum) -> None:
        self.outbound.put((self.generation, made))

    def _tell(self) -> None:
        """Say what the other thread has done, and take its buffers back."""
        for said in self.outbound.take():
            if isinstance(said, Sum):
                for vector in said.parts:
                    self.reduction.release(vector)
            else:
                self.send(said)


class Outbound:
    """Adds and sends in a thread of its own: :meth:`put` passes orders, :meth:`take` returns the finished ones."""

    def __init__(self, links: ServerLinks) -> None:
        self.links = links
        self.wakes, self._wake = os.pipe()
        """Readable when there is something to take."""
        self._orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Message | Sum] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="outbound", daemon=True).start()

    def put(self, order: Attach | tuple[int, Sum]) -> None:
        """Connect to servers, or send a sum of this generation."""
        self._orders.put(order)

    def take(self) -> list[Message | Sum]:
        """Return the work since the last call: messages for the coordinator, and sums whose parts are free again."""
        os.read(self.wakes, 1 << 12)
        return [self._done.get() for _ in range(self._done.qsize())]

    def _serve(self) -> None:
        while True:
            order = self._orders.get()
            if isinstance(order, Attach):
                self._say(attach(self.links, order))
                continue
            generation, made = order
            if generation == self.links.generation and (said := self._send(made)) is not None:
                self._say(said)
            self._say(made)

    def _say(self, done: Message | Sum) -> None:
        self._done.put(done)
        os.write(self._wake, b"\0")

    def _send(self, made: Sum) -> Message | None:
        total = self.links.grad
        total[:] = made.parts[0]
        for part in made.parts[1:]:
            total += part
        try:
            self.links.push(made.grad_id)
        except OSError as error:
            return LinkLost(generation=self.links.generation, reason=str(error))
        send_s = time.perf_counter() - made.since_s
        return Summed(grad_id=made.grad_id, members=tuple(made.members), send_s=send_s)


def aggregator_main(spec: TaskSpec, identity: Identity, buffers_fd: int) -> None:
    """Entry point of an aggregator's process."""
    from runtime.config.instantiate import instantiate

    num_parameters = Initial(instantiate(spec.backend), instantiate(spec.task), spec.seed).num_parameters
    try:
        links = ServerLinks(num_parameters, spec.secret, identity)
        links.bits = spec.transfer_bits
        Aggregator(spec, identity, links).run()
    except ConnectionError:
        os._exit(0)
