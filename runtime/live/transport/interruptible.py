"""Interruptible I/O: blocking transfers that check for orders whenever a socket's deadline passes."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable

from runtime.live.transport.channel import BlockingChannel
from runtime.live.transport.messages import Goodbye, Halt, Message
from runtime.live.transport.secured import is_readable

Look = Callable[[], None]


class Interrupted(ConnectionError):
    """The coordinator has sent an order that ends the current wait."""


class Orders:
    """The control channel of a task that must receive a ``Halt`` while it waits for other tasks."""

    def __init__(self, channel: BlockingChannel) -> None:
        self.channel = channel
        self._waiting: deque[Message] = deque()

    def next(self) -> Message | None:
        """The next order; None if the socket's deadline passed without one."""
        return self._waiting.popleft() if self._waiting else self.channel.receive()

    def look(self) -> None:
        """Read messages that have arrived; raises :class:`Interrupted` if one ends the work in progress."""
        while is_readable(self.channel.sock):
            if (message := self.channel.receive()) is not None:
                self._waiting.append(message)
        if any(isinstance(message, Halt | Goodbye) for message in self._waiting):
            raise Interrupted("the coordinator calls")


def receive_all(sock: socket.socket, view: memoryview, look: Look) -> None:
    """Fill ``view``; raises ``ConnectionError`` at the end of the stream, and any exception of ``look``."""
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
    """Send all of ``view``; raises ``OSError`` when the peer is gone, and any exception of ``look``."""
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            look()
