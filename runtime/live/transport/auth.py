"""Mutual authentication: both ends prove that they know the run's secret before anything else is read.

::

    server -> client   nonce_s (32 bytes)
    client -> server   hello (128 bytes): magic, role, id, incarnation, generation, nonce_c, HMAC
    server -> client   HMAC over both nonces (32 bytes)

HMAC-SHA256 (RFC 2104). The secret is never sent, and never in an argument or an environment variable.
"""

from __future__ import annotations

import hmac
import os
import socket
import struct

import msgspec

from runtime.live.transport.auxiliaries import AUXILIARIES
from runtime.live.transport.secured import binding_of
from strategies.protocol import AGGREGATOR, NodeId

MAGIC = b"SGL1"
TLS_HANDSHAKE = b"\x16\x03"
"""How a TLS client begins (RFC 8446, section 5.1)."""
NONCE_BYTES = 32
PROOF_BYTES = 32
HELLO_BYTES = 128
HANDSHAKE_DEADLINE_S = 2.0
MAX_UNAUTHENTICATED = 64
"""Most unauthenticated connections; for one more, the oldest is closed."""

ROLES = ("agent", "worker", "server", "reader", "child", *AUXILIARIES, AGGREGATOR)
"""Roles; a reader is a replica that copies the state of another, a child one that computes on another's parameters."""
_FIELDS = struct.Struct("<4sB3xIII")


class AuthError(ConnectionError):
    """The other end does not belong to this run."""


class SpeaksTlsError(AuthError):
    """The other end speaks TLS, and we do not."""


class SilenceError(ConnectionError):
    """The other end closed the connection before it had said anything: it speaks another protocol, or TLS."""


class Identity(msgspec.Struct, frozen=True):
    """Identity of a client. ``generation`` counts the server restarts that the client knows."""

    role: str
    id: int
    incarnation: int = 0
    generation: int = 0

    @property
    def key(self) -> NodeId:
        """The task's role and number."""
        return NodeId(self.role, self.id)


def _proof(secret: bytes, who: bytes, *parts: bytes) -> bytes:
    """The last part is what the connection is bound to (``binding_of``)."""
    return hmac.digest(secret, who + b"".join(parts), "sha256")


def hello(secret: bytes, identity: Identity, nonce_s: bytes, nonce_c: bytes, binding: bytes = b"") -> bytes:
    """The client's answer to the server's nonce."""
    role = ROLES.index(identity.role)
    packed = _FIELDS.pack(MAGIC, role, identity.id, identity.incarnation, identity.generation)
    fields = packed.ljust(HELLO_BYTES - NONCE_BYTES - PROOF_BYTES, b"\0")
    return fields + nonce_c + _proof(secret, b"client", fields, nonce_s, nonce_c, binding)


def check_hello(secret: bytes, message: bytes, nonce_s: bytes, binding: bytes = b"") -> tuple[Identity, bytes]:
    """Identity of a client and the server's own proof; raises :class:`AuthError`."""
    if message.startswith(TLS_HANDSHAKE):
        raise SpeaksTlsError("an unauthenticated peer connected: it speaks TLS")
    fields = message[: HELLO_BYTES - NONCE_BYTES - PROOF_BYTES]
    nonce_c, proof = message[len(fields) : -PROOF_BYTES], message[-PROOF_BYTES:]
    if len(message) != HELLO_BYTES or not hmac.compare_digest(
        proof, _proof(secret, b"client", fields, nonce_s, nonce_c, binding)
    ):
        raise AuthError("an unauthenticated peer connected: wrong secret")
    magic, role, number, incarnation, generation = _FIELDS.unpack(fields[: _FIELDS.size])
    if magic != MAGIC or role >= len(ROLES):
        raise AuthError("an unauthenticated peer connected: unknown protocol")
    identity = Identity(role=ROLES[role], id=number, incarnation=incarnation, generation=generation)
    return identity, _proof(secret, b"server", nonce_c, nonce_s, binding)


class Greeting:
    """Server side of the handshake on a non-blocking socket; the nonce is sent at once."""

    def __init__(self, sock: socket.socket, secret: bytes) -> None:
        self.sock, self.secret = sock, secret
        self._nonce = os.urandom(NONCE_BYTES)
        self._received = bytearray()
        self._proof = b""
        sock.setblocking(False)
        sock.send(self._nonce)

    def step(self) -> Identity | None:
        """Read what has arrived; the client's identity once authenticated. Raises ``ConnectionError``."""
        try:
            chunk = self.sock.recv(HELLO_BYTES - len(self._received))
        except BlockingIOError:  # only TLS's own bytes have arrived
            return None
        if not chunk:
            raise ConnectionResetError("closed")
        self._received += chunk
        if len(self._received) < HELLO_BYTES:
            return None
        identity, self._proof = check_hello(self.secret, bytes(self._received), self._nonce, binding_of(self.sock))
        return identity

    def welcome(self) -> None:
        """Send our own proof, only to an expected client."""
        self.sock.sendall(self._proof)


def call(sock: socket.socket, secret: bytes, identity: Identity) -> None:
    """Client side on a blocking socket; raises :class:`AuthError` unless the server authenticates, too."""
    try:
        nonce_s = receive_exactly(sock, NONCE_BYTES)
    except ConnectionResetError as error:
        raise SilenceError(str(error)) from None
    nonce_c = os.urandom(NONCE_BYTES)
    binding = binding_of(sock)
    sock.sendall(hello(secret, identity, nonce_s, nonce_c, binding))
    proof = _proof(secret, b"server", nonce_c, nonce_s, binding)
    if not hmac.compare_digest(receive_exactly(sock, PROOF_BYTES), proof):
        raise AuthError("the server does not know the run's secret")


def receive_exactly(sock: socket.socket, num_bytes: int) -> bytes:
    """Read ``num_bytes`` from a blocking socket; raises ``ConnectionError`` at its end."""
    data = bytearray(num_bytes)
    view = memoryview(data)
    while view:
        got = sock.recv_into(view, len(view), socket.MSG_WAITALL)
        if not got:
            raise ConnectionResetError("the connection was closed")
        view = view[got:]
    return bytes(data)
