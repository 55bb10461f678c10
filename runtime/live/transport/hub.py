"""The coordinator's end of the control plane: accepts, authenticates, and keeps one channel per task."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Callable

from runtime.errors import is_full
from runtime.live.transport.address import LOOPBACK, Address, listen, tune
from runtime.live.transport.auth import (
    HANDSHAKE_DEADLINE_S,
    MAX_UNAUTHENTICATED,
    AuthError,
    Greeting,
    Identity,
    SilenceError,
)
from runtime.live.transport.channel import Decode, LoopChannel
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import MalformedMessage, Message, decode, encode
from strategies.protocol import NodeId

Key = NodeId
OnMessage = Callable[[Identity, Message], None]
OnClosed = Callable[[Identity, str], None]
"""Called with a lost peer and the reason."""
Admit = Callable[[Identity], bool]


class Hub:
    """Passes messages of authenticated peers to ``on_message``, and lost peers to ``on_closed``.

    ``admit`` decides whether an identity is an expected incarnation. The hub listens at ``path`` if there is one,
    otherwise at the address ``host`` (secured with a ``certificate``, if there is one) or, with shared memory and no
    ``port``, under an abstract name.
    """

    def __init__(
        self,
        loop: Loop,
        secret: bytes,
        transport: str,
        port: int,
        path: str,
        admit: Admit,
        on_message: OnMessage,
        on_closed: OnClosed,
        host: str = LOOPBACK,
        decode: Decode = decode,
        certificate: str = "",
    ) -> None:
        self.loop, self.secret, self.decode = loop, secret, decode
        self.admit, self.on_message, self.on_closed = admit, on_message, on_closed
        self.peers: dict[Key, tuple[Identity, LoopChannel]] = {}
        self.unauthenticated: dict[socket.socket, None] = {}
        self.on_stranger: Callable[[str, OSError], None] = lambda address, error: None
        """Called with the address of a peer that could not prove the secret, and how that came about."""
        self.listener, self.address = self._listen(transport, host, port, path, certificate)
        loop.watch(self.listener, self._accept)

    @staticmethod
    def _listen(transport: str, host: str, port: int, path: str, certificate: str) -> tuple[socket.socket, Address]:
        if path:
            return listen("unix", path=path)
        return listen("shm" if transport == "shm" and not port else "tcp", host, port, certificate=certificate)

    def send(self, key: Key, message: Message) -> None:
        """Send to one peer; an unknown peer is no error, since its loss is about to be reported."""
        self.send_encoded(key, encode(message))

    def send_encoded(self, key: Key, data: bytes) -> None:
        """As :meth:`send`, for a message that goes to several peers."""
        peer = self.peers.get(key)
        if peer is None:
            return
        try:
            if peer[1].send(data):
                self._watch(*peer)
        except OSError as error:
            self._on_closed(*peer, error)

    def hang_up(self, key: Key) -> None:
        """Close the connection of a peer."""
        if (peer := self.peers.pop(key, None)) is not None:
            self.loop.forget(peer[1].sock)
            peer[1].sock.close()

    def close(self) -> None:
        """Close the listener and all connections."""
        for key in list(self.peers):
            self.hang_up(key)
        for sock in [*self.unauthenticated, self.listener]:
            self.loop.forget(sock)
            sock.close()

    # ---- handshakes --------------------------------------------------------------------------------------------------

    def _accept(self, _: int) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:  # the peer has disconnected already
            return
        if (
            len(self.unauthenticated) >= MAX_UNAUTHENTICATED
        ):  # the oldest has had its time; our own tasks authenticate at once
            self._turn_away(next(iter(self.unauthenticated)))
        self.unauthenticated[sock] = None
        try:
            tune(sock)
            greeting = Greeting(sock, self.secret)
        except OSError:
            self._turn_away(sock)
            return
        self.loop.watch(sock, lambda _: self._greet(sock, greeting))
        self.loop.after(HANDSHAKE_DEADLINE_S, lambda: self._expire(sock))

    def _expire(self, sock: socket.socket) -> None:
        if sock in self.unauthenticated:
            self._name(sock, SilenceError(f"it said nothing for {HANDSHAKE_DEADLINE_S:g} s"))
            self._turn_away(sock)

    def _name(self, sock: socket.socket, error: OSError) -> None:
        """A TLS handshake that fails is worth a word; elsewhere somebody who only looks whether we listen is not."""
        if isinstance(error, AuthError) or self.address.tls:
            with contextlib.suppress(OSError):  # gone already
                self.on_stranger(sock.getpeername()[0], error)

    def _turn_away(self, sock: socket.socket) -> None:
        self.unauthenticated.pop(sock, None)
        self.loop.forget(sock)
        sock.close()

    def _greet(self, sock: socket.socket, greeting: Greeting) -> None:
        try:
            identity = greeting.step()
            if identity is None:
                return
            if not self.admit(identity):
                raise AuthError(f"{identity} is not expected")
            greeting.welcome()
        except OSError as error:
            if sock.family == socket.AF_INET:
                self._name(sock, error)
            self._turn_away(sock)
            return
        del self.unauthenticated[sock]
        channel = LoopChannel(sock, self.decode)
        self.hang_up(identity.key)
        self.peers[identity.key] = (identity, channel)
        self._watch(identity, channel)

    # ---- peers -------------------------------------------------------------------------------------------------------

    def _watch(self, identity: Identity, channel: LoopChannel) -> None:
        self.loop.watch(
            channel.sock, lambda events: self._serve(identity, channel, events), write=bool(channel.pending)
        )

    def _serve(self, identity: Identity, channel: LoopChannel, events: int) -> None:
        key = identity.key
        try:
            if events & selectors.EVENT_WRITE and not channel.flush():
                self._watch(identity, channel)
            if events & selectors.EVENT_READ:
                for message in channel.receive():
                    self.on_message(identity, message)
                    if self.peers.get(key, (None, None))[1] is not channel:
                        return
        except OSError as error:
            if is_full(error):  # an error of the record while the message was handled: not the peer's fault
                raise
            self._on_closed(identity, channel, error)

    def _on_closed(self, identity: Identity, channel: LoopChannel, error: OSError) -> None:
        key = identity.key
        if self.peers.get(key, (None, None))[1] is channel:
            self.hang_up(key)
            self.on_closed(identity, f"it sent {error}" if isinstance(error, MalformedMessage) else "connection lost")
