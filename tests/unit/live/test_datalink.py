"""The data plane on socket pairs: a gradient is whole or not there, parameters are of one version. No process."""

from __future__ import annotations

import itertools
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from runtime.live.tasks.datalink import DataLink
from runtime.live.tasks.server import Server
from runtime.live.tasks.store import Store
from runtime.live.transport import buffers as shared_buffers
from runtime.live.transport.auth import Identity, hello, receive_exactly
from runtime.live.transport.buffers import SharedBuffers
from runtime.live.transport.frames import ACK, HEADER_BYTES, PARAMS, PUSH, Header, as_bytes, pack, unpack
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import Update
from tests.support.examples import examples
from tests.unit.live.test_store import SIZE, TALLY, order, receive, vector

Vector = NDArray[np.float32]
SECRET = bytes(32)
GENERATION = 4
LARGE = 1 << 18
"""Floats: far more than a socket takes at once."""


class Line:
    """A server's data link, and the worker's end of its socket."""

    def __init__(self, worker: int = 0) -> None:
        ours, self.worker = socket.socketpair()
        self.worker.settimeout(10)
        self.link = DataLink(ours, SECRET)
        nonce = self.read(32)
        self.worker.sendall(hello(SECRET, Identity("worker", worker, 0, GENERATION), nonce, bytes(32)))
        assert self.link.authenticate()
        self.link.welcome()
        self.read(32)

    def read(self, num_bytes: int) -> bytes:
        return receive_exactly(self.worker, num_bytes)

    def header(self) -> Header:
        return unpack(self.read(HEADER_BYTES))

    def params(self, size: int, between: Callable[[], Any] = lambda: None) -> tuple[Header, Vector]:
        """Read one delivery bit by bit, letting the server continue in between."""
        header, data = self.header(), bytearray()
        assert (header.kind, header.length) == (PARAMS, size * 4)
        while len(data) < header.length:
            data += self.worker.recv(min(1 << 16, header.length - len(data)))
            between()
            self.link.flush()
        return header, np.frombuffer(data, dtype=np.float32)

    def close(self) -> None:
        self.worker.close()
        self.link.sock.close()


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.close()


def push(grad_id: int, grad: Vector, generation: int = GENERATION) -> bytes:
    return pack(PUSH, generation, grad_id, 0, grad.nbytes) + grad.tobytes()


FIRST, SECOND = vector(1.0, 2.0, 3.0), vector(-4.0, 5.5)
STREAM = push(7, FIRST) + push(8, SECOND)


@examples(20)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_pushes_cut_in_many_places(cuts: Sequence[int]) -> None:
    line, store = Line(), Store(vector(0.0), TALLY)
    bounds = [0, *sorted(cuts), len(STREAM)]
    for lo, hi in itertools.pairwise(bounds):
        line.worker.sendall(STREAM[lo:hi])
        line.link.receive(store, GENERATION)
    assert {grad_id: grad.tobytes() for grad_id, grad in store.grads.items()} == {
        7: FIRST.tobytes(),
        8: SECOND.tobytes(),
    }
    assert [line.header() for _ in range(2)] == [Header(ACK, GENERATION, ticket, 0, 0, 0) for ticket in (7, 8)]
    line.close()


@pytest.mark.parametrize("cut", [0, 1, HEADER_BYTES, HEADER_BYTES + 1, len(push(7, FIRST)) - 1])
def test_a_worker_that_dies_in_a_push_leaves_nothing(line: Line, cut: int) -> None:
    store = Store(vector(0.0), TALLY)
    line.worker.sendall(push(7, FIRST)[:cut])
    line.worker.close()
    with pytest.raises(ConnectionError):
        line.link.receive(store, GENERATION)
    line.link.close(store)
    assert store.grads == {}
    assert len(store._spare) == (cut >= HEADER_BYTES), "its buffer is free again"
    line.link.close(store)
    assert len(store._spare) <= 1, "once"


@pytest.mark.parametrize(
    "frame",
    [
        *(pack(PUSH, GENERATION, 7, 0, length) for length in (SIZE * 4 + 4, SIZE * 4 - 4, 0, 1 << 63)),
        *(pack(PUSH, GENERATION + step, 7, 0, SIZE * 4) for step in (-1, 1)),
        pack(PARAMS, GENERATION, 7, 0, SIZE * 4),
        b"GET / HTTP/1.1\r\n".ljust(HEADER_BYTES),
    ],
)
def test_a_frame_that_does_not_fit_is_refused_before_anything_is_set_aside(line: Line, frame: bytes) -> None:
    store = Store(vector(0.0), TALLY)
    store.buffer = pytest.fail  # type: ignore[method-assign, assignment]
    line.worker.sendall(frame)
    with pytest.raises(ConnectionError, match="refused"):
        line.link.receive(store, GENERATION)


def advance(store: Store, line: Line) -> None:
    """What a server does at an update."""
    line.link.detach_params()
    receive(store, 1000 + store.version, vector(1.0, size=LARGE))
    store.apply(order(store.version + 1, 1000 + store.version))


def test_parameters_stay_of_one_version_when_updates_come_in_between(line: Line) -> None:
    store = Store(vector(0.0, size=LARGE), TALLY)
    line.link.deliver(store, GENERATION, 1)
    assert line.link.sending, "the socket did not take it all"
    header, params = line.params(LARGE, lambda: advance(store, line) if store.version < 3 else None)
    assert (header.ticket, header.version) == (1, 0)
    assert not params.any()
    line.link.deliver(store, GENERATION, 2)
    header, params = line.params(LARGE)
    assert (header.ticket, header.version) == (2, 3)
    assert (params == 3).all()


def test_a_receipt_waits_for_the_parameters_before_it(line: Line) -> None:
    store = Store(vector(0.0, size=LARGE), TALLY)
    line.link.deliver(store, GENERATION, 1)
    line.worker.sendall(pack(PUSH, GENERATION, 7, 0, LARGE * 4))
    gradient, sent = as_bytes(vector(2.0, size=LARGE)), 0
    line.worker.setblocking(False)
    while sent < len(gradient):
        sent += line.worker.send(gradient[sent:])
        line.link.receive(store, GENERATION)
    line.worker.settimeout(10)
    assert (store.grads[7] == 2).all()
    _, params = line.params(LARGE)
    assert not params.any()
    line.link.flush()
    assert line.header().kind == ACK


def test_an_empty_part_is_delivered_and_pushed(line: Line) -> None:
    """More servers than there are blocks of parameters."""
    store = Store(vector(size=0), TALLY)
    line.link.deliver(store, GENERATION, 1)
    assert line.header() == Header(PARAMS, GENERATION, 1, 0, 0, 0)
    line.worker.sendall(pack(PUSH, GENERATION, 7, 0, 0))
    line.link.receive(store, GENERATION)
    assert line.header().kind == ACK


@pytest.fixture
def buffers() -> Iterator[SharedBuffers]:
    fd = shared_buffers.create()
    yield SharedBuffers(fd, SIZE, 3)
    os.close(fd)


def test_on_a_board_only_headers_travel(line: Line, buffers: SharedBuffers) -> None:
    store = Store(vector(3.0), TALLY, buffers)
    store.deliver(("worker", 0), 1)
    line.link.deliver(store, GENERATION, 1)
    header = line.header()
    assert (header.kind, header.length) == (PARAMS, 0)
    assert buffers.slots[header.slot].tolist() == vector(3.0).tolist()
    buffers.grads[0][:] = 2.0
    store.apply(order(1, 1))
    assert store.params.tolist() == vector(5.0).tolist()
    line.worker.sendall(push(7, FIRST))
    with pytest.raises(ConnectionError, match="refused"):
        line.link.receive(store, GENERATION)


def bare_server(store: Store, **links: Any) -> Any:
    """A server without its sockets: what obeys updates."""
    server = Server.__new__(Server)
    server.store, server.generation, server.fenced, server.unauthenticated = store, GENERATION, {}, {}
    server.rate, server.towards = None, {}
    server.updates, server.busy_s, server.injected_s = 0, 0.0, 0.0
    server.links, server.waiting, server.running = links.get("links", {}), deque(), True
    server.selector = SimpleNamespace(modify=lambda *_: None, unregister=lambda *_: None)  # type: ignore[assignment]
    return server


def test_servers_choose_alike_although_one_has_noticed_a_death_before_the_other(buffers: SharedBuffers) -> None:
    """Worker 0 dies; one server has seen its connection end, the other not yet, when the same orders reach both."""
    line = Line()
    late = bare_server(Store(vector(0.0)[:32], TALLY, buffers, 0), links={("worker", 0): line.link})
    early = bare_server(Store(vector(0.0)[32:], TALLY, buffers, 32), links={})
    for version in range(1, 4):
        for server in (late, early):
            receive(server.store, 100 + version, np.ones_like(server.store.params))
            deliver = (("worker", 0, 0, version),) if version == 1 else ()
            server._obey(Update(apply=order(version, 100 + version), deliver=deliver))
    line.close()
    assert late.store.table.current == early.store.table.current
    assert buffers.slots[late.store.table.current].tolist() == vector(3.0).tolist(), "whoever reads gets one version"


class Servers:
    """Sockets of two servers that a worker is attached to."""

    def __init__(self, num_floats: int, buffers: SharedBuffers | None = None) -> None:
        self.links = ServerLinks(num_floats, SECRET, Identity("worker", 0), buffers)
        pairs = [socket.socketpair() for _ in range(2)]
        self.theirs = [theirs for _, theirs in pairs]
        half = num_floats // 2
        self.links.socks = [ours for ours, _ in pairs]
        views = [
            (as_bytes(self.links.params[part]), as_bytes(self.links.grad[part]))
            for part in (slice(half), slice(half, None))
        ]
        self.links._views = views
        self.links.generation = GENERATION

    def close(self) -> None:
        self.links.close()
        for sock in self.theirs:
            sock.close()


@pytest.fixture
def servers() -> Iterator[Servers]:
    servers = Servers(32)
    yield servers
    servers.close()


def test_a_worker_puts_the_parts_together(servers: Servers) -> None:
    for number, sock in reversed(list(enumerate(servers.theirs))):
        sock.sendall(pack(PARAMS, GENERATION, 5, 9, 64) + vector(number + 1.0, size=16).tobytes())
    assert servers.links.receive_params(5) == 9
    assert servers.links.params.tolist() == [1.0] * 16 + [2.0] * 16
    servers.theirs[0].sendall(pack(PARAMS, GENERATION, 6, 9, 64) + bytes(30))
    servers.theirs[0].close()
    with pytest.raises(ConnectionResetError):
        servers.links.receive_params(6)


@pytest.mark.parametrize(
    "frame", [pack(PARAMS, GENERATION, 6, 9, 64), pack(ACK, GENERATION, 5, 9, 0), bytes(HEADER_BYTES)]
)
def test_a_worker_takes_only_what_it_waits_for(servers: Servers, frame: bytes) -> None:
    servers.theirs[0].sendall(frame)
    with pytest.raises(ConnectionError):
        servers.links.receive_params(5)


def test_a_push_is_over_when_all_hold_it(servers: Servers) -> None:
    servers.links.grad[:] = np.arange(32)
    for sock in servers.theirs:
        sock.sendall(pack(ACK, GENERATION, 5, 0, 0))
    servers.links.push(5)
    for number, sock in enumerate(servers.theirs):
        data = sock.recv(4096)
        assert unpack(data) == Header(PUSH, GENERATION, 5, 0, 64, 0)
        assert np.frombuffer(data[HEADER_BYTES:], np.float32).tolist() == list(range(16 * number, 16 * number + 16))


def test_two_deliveries_follow_each_other(line: Line) -> None:
    """Each of its own version, although both began before anything was read."""
    store = Store(vector(0.0, size=LARGE), TALLY)
    line.link.deliver(store, GENERATION, 1)
    advance(store, line)
    line.link.deliver(store, GENERATION, 2)
    advance(store, line)
    for ticket in (1, 2):
        header, params = line.params(LARGE)
        assert (header.ticket, header.version) == (ticket, ticket - 1)
        assert (params == ticket - 1).all()
