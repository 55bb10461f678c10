"""Interruptible I/O: blocking transfers that check for orders whenever a socket's deadline passes."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

from runtime.live.transport.messages import Goodbye, Halt, Message

Look = Callable[[], None]


class Interrupted(ConnectionError):
    """The coordinator has sent an order that ends the current wait."""


class Incoming(Protocol):
    """The receiving side of a control channel."""

    def receive(self) -> Message | None:
        """The next message; None when a deadline passed without one. Raises ``ConnectionError`` at the end."""

    def is_readable(self) -> bool:
        """Whether :meth:`receive` would not wait now."""


def _halts(message: Message) -> bool:
    return isinstance(message, Halt | Goodbye)


class Orders:
    """The control channel of a task that waits for other tasks; ``ends`` says which orders end the work in progress."""

    def __init__(self, channel: Incoming, ends: Callable[[Message], bool] = _halts) -> None:
        self.channel, self.ends = channel, ends
        self._waiting: deque[Message] = deque()

    def next(self) -> Message | None:
        """The next order; None if the socket's deadline passed without one."""
        return self._waiting.popleft() if self._waiting else self.channel.receive()

    def look(self) -> None:
        """Read messages that have arrived; raises :class:`Interrupted` if one ends the work in progress."""
        while self.channel.is_readable():
            if (message := self.channel.receive()) is not None:
                self._waiting.append(message)
        if any(self.ends(message) for message in self._waiting):
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
