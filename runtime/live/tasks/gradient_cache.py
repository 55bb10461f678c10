"""The gradients that a worker keeps for replicas of the server and gives them on order, also while it computes.

A thread reads the control channel and another one sends, so neither waits for a gradient that is being computed.
"""

from __future__ import annotations

import queue
import socket
import threading
from typing import final

from runtime.core.vectors import FloatVector
from runtime.live.transport.address import connect
from runtime.live.transport.auth import Identity, call
from runtime.live.transport.channel import BlockingChannel
from runtime.live.transport.frames import as_bytes
from runtime.live.transport.links import push_frame
from runtime.live.transport.messages import Fence, Message, Release, ReplicateGradient, ReplicationFailed


@final
class GradientCache:
    """Gradients of one worker by id, and its connections to replicas, which are called when first needed."""

    def __init__(self, secret: bytes, identity: Identity, channel: BlockingChannel) -> None:
        self.secret, self.identity, self.channel = secret, identity, channel
        self.generation = 0
        self._kept: dict[int, memoryview] = {}
        self._gone: dict[int, int] = {}
        """Of replicas: the last incarnation that is lost."""
        self._socks: dict[tuple[int, int, int], socket.socket] = {}
        """By generation, replica and incarnation."""
        self._orders: queue.SimpleQueue[ReplicateGradient] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="cache", daemon=True).start()

    def keep(self, grad_id: int, grad: FloatVector) -> None:
        """Copy a gradient, and keep that until it is released."""
        self._kept[grad_id] = as_bytes(grad.copy())

    def begin(self, generation: int) -> None:
        """Keep nothing of an earlier generation."""
        self.generation = generation
        self._kept.clear()

    def takes(self, message: Message) -> bool:
        """Carry an order out if it is about what is kept."""
        match message:
            case ReplicateGradient():
                self._orders.put(message)
            case Release():
                for grad_id in message.grads:
                    self._kept.pop(grad_id, None)
            case Fence():
                self._gone[message.id] = message.incarnation
            case _:
                return False
        return True

    def _serve(self) -> None:
        while True:
            order = self._orders.get()
            if order.generation != self.generation or order.incarnation <= self._gone.get(order.server, -1):
                continue
            if (payload := self._kept.get(order.grad_id)) is None:  # replicas have a copy by now
                continue
            try:
                self._give(order, payload)
            except OSError as error:
                reason = f"worker {self.identity.id} could not send gradient {order.grad_id} to it ({error})"
                self.channel.tell(ReplicationFailed(server=order.server, incarnation=order.incarnation, reason=reason))

    def _give(self, order: ReplicateGradient, payload: memoryview) -> None:
        key = (order.generation, order.server, order.incarnation)
        if key not in self._socks:
            for old in [one for one in self._socks if one[0] != order.generation or one[1] == order.server]:
                self._socks.pop(old).close()
            self._socks[key] = self._call(order)
        try:
            push_frame(self._socks[key], order.generation, order.grad_id, payload)
        except OSError:
            self._socks.pop(key).close()
            raise

    def _call(self, order: ReplicateGradient) -> socket.socket:
        sock, me = connect(order.to), self.identity
        try:
            call(sock, self.secret, Identity(me.role, me.id, me.incarnation, order.generation))
        except BaseException:
            sock.close()
            raise
        return sock
