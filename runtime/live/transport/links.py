"""A worker's end of the data plane: its connections to all servers."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from runtime.core.vectors import FloatVector, aligned_vector
from runtime.live.transport.address import SOCKET_DEADLINE_S, Address, connect, least, pace, set_deadline
from runtime.live.transport.auth import Identity, call
from runtime.live.transport.bfloat16 import Bfloat16Vector, bfloat16_vector, decode, encode
from runtime.live.transport.buffers import SharedBuffers
from runtime.live.transport.frames import ACK, HEADER_BYTES, PARAMS, POST, PUSH, Header, as_bytes, pack, unpack

Look = Callable[[], None]
HALF_BITS = 16
LOOK_EVERY_S = 1.0
"""A server that is silent for so long may be on a machine that is gone: nobody closes its connections then."""


def _nobody() -> None:
    """In the place of somebody who looks."""


class CachesGradients(Protocol):
    """Keeps gradients for replicas of the server (:class:`runtime.live.tasks.gradient_cache.GradientCache`)."""

    def keep(self, grad_id: int, grad: FloatVector) -> None:
        """Copy a gradient, and keep that until it is released."""

    def begin(self, generation: int) -> None:
        """Keep nothing of an earlier generation."""


class ServerLinks:
    """Flat parameters and gradient of one worker (float32 [num_floats]), and its connections to the servers.

    ``grad`` stays the same array for the worker's whole life. ``params`` does, too, unless there are shared
    ``buffers``: then every delivery gives the slot of the parameters.

    ``same_machine``: no link, emulated or real, is between this task and the servers, so the kernel that takes a
    gradient delivers it as fast as a server reads, even if this process ends. Then nobody waits for a receipt; a server
    carries out no order that needs the gradient before it holds it.
    """

    def __init__(
        self,
        num_floats: int,
        secret: bytes,
        identity: Identity,
        buffers: SharedBuffers | None = None,
    ) -> None:
        self.num_floats, self.secret, self.identity, self.buffers = num_floats, secret, identity, buffers
        self.same_machine = False
        self.bits = 32
        """Bits of a number on its way; before :meth:`attach`."""
        self.shares_grad = buffers is not None and identity.role == "worker"
        self.params: FloatVector = buffers.slots[0] if buffers else aligned_vector(num_floats)
        self.grad: FloatVector = (
            buffers.grads[identity.id] if buffers and self.shares_grad else aligned_vector(num_floats)
        )
        self.received_s = 0.0
        self.rate: int | None = None
        """Bytes per second at which each connection may send; None: no limit."""
        self._towards: dict[str, int] = {}
        """Bytes per second at which the connection to a server, ``server:0``, may send."""
        self._named: dict[str, socket.socket] = {}
        self._pacing = threading.Lock()
        """Rates of links change while this task computes or sends."""
        self.look: Look = _nobody
        """Called while nothing moves; an exception from it ends the wait."""
        self.generation = 0
        self.cache: CachesGradients | None = None
        """Keeps gradients for replicas of the server."""
        self.socks: list[socket.socket] = []
        self._views: list[tuple[memoryview, memoryview]] = []
        self._bfloat16: list[tuple[Bfloat16Vector, FloatVector, Bfloat16Vector, FloatVector]] = []
        """With 16 bits, by server: parameters as they come and in 32 bits, the gradient as it goes and in 32 bits."""
        self._header = bytearray(HEADER_BYTES)
        self._aggregators: dict[Address, socket.socket] = {}
        self._bfloat16_grad: Bfloat16Vector | None = None

    def attach(
        self,
        generation: int,
        servers: Sequence[Address],
        ranges: Sequence[tuple[int, int]],
        names: Sequence[str] = (),
    ) -> None:
        """Connect to all servers again, which hold these ranges; raises ``OSError`` if one cannot be reached.

        ``names``: of the servers, where links may be limited.
        """
        self.close()
        self.generation = generation
        if self.cache is not None:
            self.cache.begin(generation)
        self._views = [(as_bytes(self.params[lo:hi]), as_bytes(self.grad[lo:hi])) for lo, hi in ranges]
        if self.bits == HALF_BITS:
            parts = [(self.params[lo:hi], self.grad[lo:hi]) for lo, hi in ranges]
            self._bfloat16 = [
                (bfloat16_vector(len(params)), params, bfloat16_vector(len(grad)), grad) for params, grad in parts
            ]
            self._views = [(as_bytes(come), as_bytes(go)) for come, _, go, _ in self._bfloat16]
        for address in servers:
            self.socks.append(self._call(address))
        with self._pacing:
            self._named = dict(zip(names, self.socks, strict=False))
            for name in self._towards:
                self._pace(name)
            if self.rate is not None:
                self._pace_all()

    def pace(self, bytes_per_s: int | None) -> int | None:
        """Limit the rate of every connection, now and after :meth:`attach`; returns the least that the kernel has."""
        with self._pacing:
            self.rate = bytes_per_s
            return self._pace_all()

    def pace_towards(self, towards: Mapping[str, int]) -> dict[str, int | None]:
        """Limit the rate towards these servers, now and after :meth:`attach`, and no other ones.

        Any thread may call it. Returns what the kernel has, of the connections that this changes; raises ``OSError``.
        """
        with self._pacing:
            changed = {**self._towards, **towards}
            self._towards = dict(towards)
            return {name: self._pace(name) for name in changed if name in self._named}

    def _pace_all(self) -> int | None:
        names = {sock: name for name, sock in self._named.items()}
        socks = (*self.socks, *self._aggregators.values())
        held = [pace(sock, least(self.rate, self._towards.get(names.get(sock, "")))) for sock in socks]
        return min((rate for rate in held if rate is not None), default=None)

    def _pace(self, name: str) -> int | None:
        return pace(self._named[name], least(self.rate, self._towards.get(name))) if name in self._named else None

    def _call(self, address: Address) -> socket.socket:
        sock = connect(address)
        try:
            me = self.identity
            call(sock, self.secret, Identity(me.role, me.id, me.incarnation, self.generation))
            set_deadline(sock, LOOK_EVERY_S)
        except BaseException:
            sock.close()
            raise
        return sock

    def close(self) -> None:
        with self._pacing:
            for sock in (*self.socks, *self._aggregators.values()):
                sock.close()
            self.socks, self._aggregators, self._named = [], {}, {}

    def receive_params(self, ticket: int) -> int:
        """Wait until all servers have delivered under ``ticket``; returns the version delivered.

        ``received_s`` is then the time of waiting for parts whose header had arrived: a late server sends none, so this
        is the time on the link. Parts that had arrived before took no time.

        Raises ``ConnectionError`` when a server is gone, and any exception of ``look``.
        """
        version, self.received_s = 0, 0.0
        for sock, (params, _) in zip(self.socks, self._views, strict=True):
            header = _expect(sock, PARAMS, ticket, self._header, self.look)
            version = header.version
            if header.length != (0 if self.buffers is not None else len(params)):
                raise ConnectionError(f"refused {header}: {len(params)} bytes of parameters would fit")
            if self.buffers is None:
                begun = time.perf_counter()
                receive_into(sock, params, self.look)
                self.received_s += time.perf_counter() - begun
            elif header.slot < len(self.buffers.slots):
                self.params = self.buffers.slots[header.slot]
            else:
                raise ConnectionError(f"refused {header}: there are {len(self.buffers.slots)} slots")
        for bfloat16, part, _, _ in self._bfloat16:
            decode(bfloat16, part)
        return version

    def push(self, ticket: int) -> None:
        """Push the gradient; return when all servers hold it or, on the ``same_machine``, the kernel has all of it.

        A link of limited rate is waited for in any case. In shared buffers servers read the gradient in place, so
        nothing is sent: the coordinator's order to use it suffices. Raises as :meth:`receive_params`.
        """
        if self.shares_grad:
            return
        kind = POST if self.same_machine and self.rate is None else PUSH
        for _, _, bfloat16, part in self._bfloat16:
            encode(part, bfloat16)
        for sock, (_, grad) in zip(self.socks, self._views, strict=True):
            _send(sock, pack(kind, self.generation, ticket, 0, len(grad)), grad, self.look)
        if kind == PUSH:
            for sock in self.socks:
                _expect(sock, ACK, ticket, self._header, self.look)

    def push_to(self, aggregator: Address, ticket: int) -> None:
        """Push the whole gradient to an aggregator, which is called first if need be; return when it has all of it.

        Raises ``OSError`` if it is gone, and any exception of ``look``.
        """
        whole = as_bytes(self.grad)
        if self.bits == HALF_BITS:
            if self._bfloat16_grad is None:
                self._bfloat16_grad = bfloat16_vector(self.num_floats)
            encode(self.grad, self._bfloat16_grad)
            whole = as_bytes(self._bfloat16_grad)
        if (sock := self._aggregators.get(aggregator)) is None:
            sock = self._aggregators[aggregator] = self._call(aggregator)
            if self.rate is not None:
                pace(sock, self.rate)
        try:
            push_frame(sock, self.generation, ticket, whole, self.look)
        except OSError:
            self._aggregators.pop(aggregator).close()
            raise


def push_frame(sock: socket.socket, generation: int, ticket: int, payload: memoryview, look: Look = _nobody) -> None:
    """Push a gradient on one connection; return when the other end has all of it."""
    _send(sock, pack(PUSH, generation, ticket, 0, len(payload)), payload, look)
    _expect(sock, ACK, ticket, bytearray(HEADER_BYTES), look)


def receive_copy(sock: socket.socket, floats: FloatVector) -> Header:
    """Fill ``floats`` with a server's parameters; returns the frame's header."""
    header = bytearray(HEADER_BYTES)
    receive_into(sock, memoryview(header))
    found = unpack(header)
    if found.kind != PARAMS or found.length != floats.nbytes:
        raise ConnectionError(f"refused {found}: a copy of {floats.nbytes} bytes would fit")
    receive_into(sock, as_bytes(floats))
    return found


def _expect(sock: socket.socket, kind: int, ticket: int, buffer: bytearray, look: Look = _nobody) -> Header:
    receive_into(sock, memoryview(buffer), look)
    header = unpack(buffer)
    if header.kind != kind or header.ticket != ticket:
        raise ConnectionError(f"expected frame {kind} of {ticket}, got {header}")
    return header


def receive_into(sock: socket.socket, view: memoryview, look: Look = _nobody) -> None:
    """Fill ``view``; when a socket's deadline passes, check whether the run still lives, and ``look``."""
    parent = os.getppid()
    while view:
        try:
            got = sock.recv_into(view, len(view), socket.MSG_WAITALL)
        except BlockingIOError:
            if os.getppid() != parent:
                raise ConnectionResetError("the run is over") from None
            look()
            continue
        if not got:
            raise ConnectionResetError("a server closed the connection")
        view = view[got:]


def _send(sock: socket.socket, header: bytes, payload: memoryview, look: Look = _nobody) -> None:
    """Send a frame; a server that reads nothing for ``SOCKET_DEADLINE_S`` counts as gone."""
    parts, until_s = [memoryview(header), payload], time.monotonic() + SOCKET_DEADLINE_S
    while parts:
        try:
            sent = sock.sendmsg(parts)
        except BlockingIOError:
            if time.monotonic() >= until_s:
                raise ConnectionResetError("a server does not receive the gradient") from None
            look()
            continue
        until_s = time.monotonic() + SOCKET_DEADLINE_S
        while parts and sent >= len(parts[0]):
            sent -= len(parts.pop(0))
        if parts:
            parts[0] = parts[0][sent:]
