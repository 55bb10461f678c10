"""Accepts a replica's connections: peers connect at any time, and a thread answers them while it computes.

The thread does only the handshake. An authenticated connection waits, under its peer's identity, for the replica to
:meth:`Acceptor.take` it: a neighbour of the ring, a child, an auxiliary task, or a newcomer that copies the state.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from runtime.live.transport.address import Address, connect, set_deadline, tune
from runtime.live.transport.auth import HANDSHAKE_DEADLINE_S, MAX_UNAUTHENTICATED, Greeting, Identity, call
from runtime.live.transport.auxiliaries import AUXILIARIES

LOOK_EVERY_S = 0.1
CLOSE_S = 5.0
CALL_DEADLINE_S = 1.0
"""Seconds after which a blocked call on either end of a taken socket lets its owner check for orders."""
GUESTS = ("worker", "reader", "child", *AUXILIARIES)
"""Roles that may connect: a neighbour in the ring, a newcomer that copies state, a child, an auxiliary task."""


def call_acceptor(address: Address, secret: bytes, ours: Identity) -> socket.socket:
    """The other end: connect to a replica as ``ours``, which it expects; raises ``OSError`` if it cannot be reached."""
    sock = connect(address)
    try:
        call(sock, secret, ours)
        set_deadline(sock, CALL_DEADLINE_S)
    except BaseException:
        sock.close()
        raise
    return sock


class Acceptor:
    """Accepts connections on ``listeners``, which it owns from now on."""

    def __init__(self, secret: bytes, listeners: Sequence[socket.socket]) -> None:
        self.secret, self.listeners = secret, list(listeners)
        self._here = threading.Condition()
        self._guests: dict[Identity, socket.socket] = {}
        self._generation = 0
        self._selector = selectors.DefaultSelector()
        self._strangers: dict[socket.socket, tuple[Greeting, float]] = {}
        self._closing, self._closer = socket.socketpair()
        for listener in (*self.listeners, self._closing):
            self._selector.register(listener, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._serve, name="acceptor", daemon=True)
        self._thread.start()

    # ---- the replica's side ------------------------------------------------------------------------------------------

    def take(self, identity: Identity, look: Callable[[], None], limit_s: float | None = None) -> socket.socket:
        """The connection of exactly this peer, as soon as it has arrived.

        ``look`` is called periodically and may raise to end the wait. Raises ``ConnectionError`` after ``limit_s``.
        """
        deadline = None if limit_s is None else time.monotonic() + limit_s
        while True:
            with self._here:
                if identity not in self._guests:
                    self._here.wait(LOOK_EVERY_S)
                if (sock := self._guests.pop(identity, None)) is not None:
                    return sock
            look()
            if deadline is not None and time.monotonic() > deadline:
                raise ConnectionError(f"{identity} does not connect")

    def forget_before(self, generation: int) -> None:
        """Close connections of older generations."""
        with self._here:
            self._generation = generation
            for identity in [one for one in self._guests if one.generation < generation]:
                self._guests.pop(identity).close()

    def close(self) -> None:
        """Accept no more connections; a process that ends need not call this."""
        self._closer.close()
        self._thread.join(CLOSE_S)
        guests, self._guests = self._guests, {}
        for sock in (*guests.values(), *self._strangers, *self.listeners, self._closing):
            sock.close()
        self._selector.close()

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select(HANDSHAKE_DEADLINE_S if self._strangers else None):
                if key.fileobj is self._closing:
                    return
                if key.data is None:
                    self._accept(key.fileobj)
                else:
                    self._greet(key.data)
            now = time.monotonic()
            for sock, (_, since) in list(self._strangers.items()):
                if now - since > HANDSHAKE_DEADLINE_S:
                    self._turn_away(sock)

    def _accept(self, listener: Any) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:  # the peer has disconnected already
            return
        if len(self._strangers) >= MAX_UNAUTHENTICATED:
            self._turn_away(next(iter(self._strangers)))
        try:
            tune(sock)
            self._strangers[sock] = (Greeting(sock, self.secret), time.monotonic())
            self._selector.register(sock, selectors.EVENT_READ, sock)
        except OSError:
            self._strangers.pop(sock, None)
            sock.close()

    def _greet(self, sock: socket.socket) -> None:
        if sock not in self._strangers:
            return
        greeting = self._strangers[sock][0]
        try:
            identity = greeting.step()
            if identity is None:
                return
            if identity.role not in GUESTS or identity.generation < self._generation:
                raise ConnectionError(f"{identity} is not expected")
            greeting.welcome()
            sock.setblocking(True)
            set_deadline(sock, CALL_DEADLINE_S)
        except OSError:
            self._turn_away(sock)
            return
        del self._strangers[sock]
        self._selector.unregister(sock)
        with self._here:
            if identity.generation < self._generation:  # closed while the handshake was in progress
                sock.close()
                return
            if (old := self._guests.pop(identity, None)) is not None:
                old.close()
            self._guests[identity] = sock
            self._here.notify_all()

    def _turn_away(self, sock: socket.socket) -> None:
        self._strangers.pop(sock, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(sock)
        sock.close()
