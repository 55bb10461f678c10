"""The exchange of a replica outside of the ring with its parent: parameters one way, gradients the other.

The two ends take turns on one connection, which the child opens: the parent sends the parameters under a gradient's
ticket, the child pushes that gradient, the parent acknowledges it. A parent that computes does not read its sockets, so
a thread per gradient does. It sends a copy of the parameters: a child whose link is slow holds no update up.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, final

from runtime.core.vectors import FloatVector
from runtime.live.transport.acceptor import Acceptor, call_acceptor
from runtime.live.transport.auth import Identity
from runtime.live.transport.frames import ACK, HEADER_BYTES, PARAMS, PUSH, Header, as_bytes, pack, unpack
from runtime.live.transport.interruptible import receive_all, send_all
from runtime.live.transport.messages import Peer

Look = Callable[[], None]
JOIN_S = 5.0
"""Seconds for which a halt waits for a thread whose connection is closed."""


class Exchange(NamedTuple):
    """One gradient of a child. ``vector`` holds the parameters of ``version``, and receives the gradient after that."""

    child: Identity
    ticket: int
    version: int
    vector: FloatVector


@final
class Children:
    """The parent's end, whose methods are for the main thread."""

    def __init__(self, acceptor: Acceptor) -> None:
        self.acceptor = acceptor
        self._state = threading.Lock()
        self._arrived: dict[int, FloatVector] = {}
        self._links: dict[int, tuple[Identity, socket.socket]] = {}
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()

    def serve(self, exchange: Exchange) -> None:
        """Send the parameters to a child as soon as it is connected, and receive its gradient."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        closed = self._closed
        thread = threading.Thread(
            target=self._serve, args=(exchange, closed), name=f"child {exchange.child.id}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def arrived(self) -> dict[int, FloatVector]:
        """The gradients that have arrived since the last call, by ticket."""
        with self._state:
            arrived, self._arrived = self._arrived, {}
        return arrived

    def close(self) -> None:
        """End all exchanges and connections; gradients that have not arrived are lost."""
        self._closed.set()
        with self._state:
            links, self._links = self._links, {}
        for _, sock in links.values():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(JOIN_S)
        for _, sock in links.values():
            sock.close()
        self._threads, self._closed = [], threading.Event()
        self._arrived = {}

    # ---- the thread of one gradient ----------------------------------------------------------------------------------

    def _serve(self, exchange: Exchange, closed: threading.Event) -> None:
        """Others report the loss of a child: the exchange with it then simply ends."""

        def look() -> None:
            if closed.is_set():
                raise ConnectionError("the replica has halted")

        try:
            sock = self._link(exchange.child, look)
            vector = as_bytes(exchange.vector)
            header = pack(PARAMS, exchange.child.generation, exchange.ticket, exchange.version, len(vector))
            for part in (memoryview(header), vector):
                send_all(sock, part, look)
            _expect(sock, PUSH, exchange.ticket, len(vector), look)
            receive_all(sock, vector, look)
            with self._state:
                if not closed.is_set():
                    self._arrived[exchange.ticket] = exchange.vector
            send_all(sock, memoryview(pack(ACK, exchange.child.generation, exchange.ticket, exchange.version, 0)), look)
        except OSError:
            self._hang_up(exchange.child)

    def _hang_up(self, child: Identity) -> None:
        """Close the connection, so that the child notices if it still lives."""
        with self._state:
            known = self._links.pop(child.id, None)
        if known is not None:
            known[1].close()

    def _link(self, child: Identity, look: Look) -> socket.socket:
        """The connection of this child; it is there from its last gradient, or expected."""
        with self._state:
            known = self._links.get(child.id)
        if known is not None and known[0] == child and not is_closed(known[1]):
            return known[1]
        sock = self.acceptor.take(child, look)
        with self._state:
            self._links[child.id] = (child, sock)
        look()
        if known is not None:
            known[1].close()
        return sock


@final
class ParentLink:
    """The child's end. ``look`` is called while it waits, and may raise."""

    def __init__(self, secret: bytes, look: Look) -> None:
        self.secret, self.look = secret, look
        self.received_s = 0.0
        """Seconds that the last parameters were on their way."""
        self._link: tuple[Identity, Identity, socket.socket] | None = None

    def connect(self, parent: Peer, ours: Identity) -> None:
        """Be the child of this parent from now on; raises ``OSError`` if it cannot be reached."""
        theirs = Identity("worker", parent.worker, parent.incarnation, ours.generation)
        if self._link is not None and self._link[:2] == (theirs, ours):
            return
        self.close()
        self._link = (theirs, ours, call_acceptor(parent.address, self.secret, ours))

    def pull(self, ticket: int, params: FloatVector) -> int:
        """Receive the parameters for this gradient; returns their version."""
        about = _expect(self._sock, PARAMS, ticket, params.nbytes, self.look)
        begun = time.perf_counter()
        receive_all(self._sock, as_bytes(params), self.look)
        self.received_s = time.perf_counter() - begun
        return about.version

    def push(self, ticket: int, grad: FloatVector) -> None:
        """Send the gradient; returns when the parent has it."""
        generation = self._generation
        for part in (memoryview(pack(PUSH, generation, ticket, 0, grad.nbytes)), as_bytes(grad)):
            send_all(self._sock, part, self.look)
        _expect(self._sock, ACK, ticket, 0, self.look)

    def close(self) -> None:
        """Leave the parent; the next gradient connects again."""
        if self._link is not None:
            self._link[2].close()
            self._link = None

    @property
    def _sock(self) -> socket.socket:
        assert self._link is not None, "no parent is known"
        return self._link[2]

    @property
    def _generation(self) -> int:
        assert self._link is not None, "no parent is known"
        return self._link[1].generation


def _expect(sock: socket.socket, kind: int, ticket: int, length: int, look: Look) -> Header:
    """The header of the next frame, which must be this one; raises ``ConnectionError``."""
    header = bytearray(HEADER_BYTES)
    receive_all(sock, memoryview(header), look)
    about = unpack(header)
    if (about.kind, about.ticket, about.length) != (kind, ticket, length):
        raise ConnectionError(f"refused {about}: gradient {ticket} of {length} bytes is exchanged")
    return about


def is_closed(sock: socket.socket) -> bool:
    """Whether the other end has closed this connection, on which nothing is expected now."""
    try:
        return not sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
