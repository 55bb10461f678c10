"""Blocking transfers that look around: a socket's deadline that passes is only a reason to ask whether to go on."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Callable

from runtime.live.transport.channel import BlockingChannel
from runtime.live.transport.messages import Goodbye, Halt, Message

Look = Callable[[], None]


class Interrupted(ConnectionError):
    """Whatever is waited for, the coordinator has something more urgent to say."""


class Orders:
    """The control channel of a task that must hear of a halt while it waits for somebody else."""

    def __init__(self, channel: BlockingChannel) -> None:
        self.channel = channel
        self._waiting: deque[Message] = deque()

    def next(self) -> Message | None:
        """The next order; None when there was none for long."""
        return self._waiting.popleft() if self._waiting else self.channel.receive()

    def look(self) -> None:
        """Read what has come meanwhile; raises :class:`Interrupted` when that ends what is under way."""
        while select.select([self.channel.sock], [], [], 0)[0]:
            if (message := self.channel.receive()) is not None:
                self._waiting.append(message)
        if any(isinstance(message, Halt | Goodbye) for message in self._waiting):
            raise Interrupted("the coordinator calls")


def receive_all(sock: socket.socket, view: memoryview, look: Look) -> None:
    """Fill ``view``; raises ``ConnectionError`` at the end of the stream, and whatever ``look`` raises."""
    while view:
        try:
            got = sock.recv_into(view, len(view), socket.MSG_WAITALL)
        except BlockingIOError:
            look()
            continue
        if not got:
            raise ConnectionResetError("the other end has closed the connection")
        view = view[got:]


def send_all(sock: socket.socket, view: memoryview, look: Look) -> None:
    """Write all of ``view``; raises ``OSError`` when nobody reads any more, and whatever ``look`` raises."""
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            look()
