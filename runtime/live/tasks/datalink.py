"""A server's end of the data plane: one non-blocking connection to one worker."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from typing import Protocol

from runtime.core.vectors import PARAMETER_BYTES, FloatVector
from runtime.live.tasks.store import Store
from runtime.live.transport.auth import Greeting, Identity
from runtime.live.transport.auxiliaries import SCORER
from runtime.live.transport.bfloat16 import Bfloat16Vector, bfloat16_vector, decode
from runtime.live.transport.frames import ACK, HEADER_BYTES, PARAMS, POST, PUSH, as_bytes, pack, unpack

KINDS: dict[str, tuple[int, ...]] = {SCORER.name: (PUSH,), "server": ()}
"""Frames by which a peer may bring vectors, by its role; a replica of the server brings none."""
DRAIN_MS = 100
"""Milliseconds without any data after which a gradient from a lost worker is not waited for any more."""


class Sink(Protocol):
    """Where gradients are held when they are complete."""

    shares_memory: bool

    @property
    def num_bytes(self) -> int:
        """Size of one gradient."""

    def buffer(self) -> FloatVector:
        """A buffer to receive one, until it is held or released."""

    def release(self, buffer: FloatVector) -> None:
        """Take a receive buffer back."""

    def hold(self, grad_id: int, grad: FloatVector) -> None:
        """Keep a gradient that is complete in a buffer."""

    def compute_reference(self, ticket: int, reference: FloatVector) -> None:
        """Keep a reference that is complete in a buffer."""


class DataLink:
    """Receives gradients directly into the store's buffers and sends parameters from their place, without copies.

    Both only after the peer has authenticated.
    """

    def __init__(self, sock: socket.socket, secret: bytes) -> None:
        self.sock = sock
        self._greeting = Greeting(sock, secret)
        self.identity = Identity("worker", -1)
        self.since = time.monotonic()
        self.watched = 1
        self.sending: deque[tuple[memoryview, bool]] = deque()
        self.due: int | None = None
        """The gradient that the worker computes on the parameters delivered last, until it is complete."""
        self.promises = True
        """Whether it surely pushes that gradient here, and soon; not where gradients are held."""
        self.unwanted = False
        """Whether that gradient is dropped: it will be discarded when it is complete."""
        self._header = bytearray(HEADER_BYTES)
        self._target = memoryview(self._header)
        self._bfloat16: Bfloat16Vector | None = None
        self._ticket = -1
        self._kind = PUSH
        self._buffer: FloatVector | None = None

    @property
    def who(self) -> tuple[str, int]:
        """The peer's role and id."""
        return self.identity.role, self.identity.id

    # ---- handshake ---------------------------------------------------------------------------------------------------

    def authenticate(self) -> bool:
        """One step of the handshake; True when the peer has authenticated. Raises ``AuthError``."""
        identity = self._greeting.step()
        if identity is not None:
            self.identity = identity
        return identity is not None

    def welcome(self) -> None:
        """Send our own proof, only to an expected peer."""
        self._greeting.welcome()

    def use_16_bits(self, store: Sink) -> None:
        """Parameters and gradients have 16 bits on this link."""
        self._bfloat16 = bfloat16_vector(store.num_bytes // PARAMETER_BYTES)

    # ---- gradients in ------------------------------------------------------------------------------------------------

    def receive(self, store: Sink, generation: int) -> None:
        """Read what has arrived. Raises ``ConnectionError`` at the end of the stream or for an unexpected frame."""
        while True:
            try:
                got = self.sock.recv_into(self._target, len(self._target))
            except BlockingIOError:
                return
            if not got:
                raise ConnectionResetError("closed")
            if got < len(self._target):
                self._target = self._target[got:]
            elif self._buffer is None:
                self._begin_push(store, generation)
            else:
                if self._bfloat16 is not None:
                    decode(self._bfloat16, self._buffer)
                self._take(store, self._buffer)
                awaited = self._ticket == self.due
                self._finish_push(generation)
                if awaited:  # nothing follows before the next delivery: asking the socket would cost a call
                    return

    def _begin_push(self, store: Sink, generation: int) -> None:
        header = unpack(self._header)
        expected = store.num_bytes if self._bfloat16 is None else self._bfloat16.nbytes
        kinds = KINDS.get(self.identity.role, (PUSH, POST))
        fits = header.kind in kinds and header.length == expected and header.generation == generation
        if not fits or (store.shares_memory and not self._brings_reference):
            raise ConnectionError(f"refused {header}: a push of {expected} bytes in generation {generation} would fit")
        self._ticket, self._kind = header.ticket, header.kind
        if expected:
            self._buffer = store.buffer()
            self._target = as_bytes(self._buffer if self._bfloat16 is None else self._bfloat16)
            return
        self._take(store, store.buffer())  # a part of no parameters at all
        self._finish_push(generation)

    @property
    def _brings_reference(self) -> bool:
        return self.identity.role == SCORER.name

    def _take(self, store: Sink, vector: FloatVector) -> None:
        if self._brings_reference:
            store.compute_reference(self._ticket, vector)
        elif self.unwanted and self._ticket == self.due:
            store.release(vector)
        else:
            store.hold(self._ticket, vector)

    def _finish_push(self, generation: int) -> None:
        self._buffer = None
        self._target = memoryview(self._header)
        if self._ticket == self.due:
            self.due, self.unwanted = None, False
        if self._kind == PUSH:
            self._send(memoryview(pack(ACK, generation, self._ticket, 0, 0)))

    def drain(self, store: Sink, generation: int) -> None:
        """Read all that has arrived of a gradient from a peer that may be gone."""
        try:
            self.receive(store, generation)
            (more := select.poll()).register(self.sock, select.POLLIN)
            while self._buffer is not None and more.poll(DRAIN_MS):
                self.receive(store, generation)
        except OSError:
            return

    # ---- parameters out ----------------------------------------------------------------------------------------------

    def deliver(self, store: Store, generation: int, ticket: int) -> None:
        """Send the current parameters, or the number of their slot in the shared buffers."""
        if self.identity.role == "worker" and self.promises and not store.shares_memory:
            self.due, self.unwanted = ticket, False
        if store.shares_memory:
            self._send(memoryview(pack(PARAMS, generation, ticket, store.version, 0, store.table.current)))
            return
        payload = as_bytes(store.params if self._bfloat16 is None else store.bfloat16())
        header = memoryview(pack(PARAMS, generation, ticket, store.version, len(payload)))
        if not self.sending:
            try:
                sent = self.sock.sendmsg([header, payload])
            except BlockingIOError:
                sent = 0
            header, payload = header[sent:], payload[max(0, sent - HEADER_BYTES) :]
        self._send(header)
        self._send(payload, is_params=True)

    def hand_over(self, version: int, steps: int, generation: int, state: FloatVector) -> None:
        """Send what a replica continues with, which is not modified meanwhile."""
        payload = as_bytes(state)
        self._send(memoryview(pack(PARAMS, generation, steps, version, len(payload))))
        self._send(payload)

    def detach_params(self) -> None:
        """Copy what has not been sent yet, because the parameters are about to change."""
        if self.sending:
            self.sending = deque(
                (memoryview(bytes(part)), False) if is_params else (part, False) for part, is_params in self.sending
            )

    def _send(self, data: memoryview, *, is_params: bool = False) -> None:
        if not len(data):
            return
        self.sending.append((data, is_params))
        self.flush()

    def flush(self) -> None:
        """Send what the socket accepts."""
        while self.sending:
            part, is_params = self.sending[0]
            try:
                sent = self.sock.send(part)
            except BlockingIOError:
                return
            if sent < len(part):
                self.sending[0] = (part[sent:], is_params)
            else:
                self.sending.popleft()

    def close(self, store: Sink) -> None:
        """Close the connection; an incomplete gradient is discarded."""
        if self._buffer is not None:
            store.release(self._buffer)
            self._buffer = None
        self.sending.clear()
        self.sock.close()
