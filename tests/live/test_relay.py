"""The relay that emulates latency: everything arrives, in order, and not before its time."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from runtime.live.hosts import holding, latency
from runtime.live.hosts.latency import RelayFailed, add_routes, start_relay, stop_relay
from runtime.live.hosts.relay import PreciseLoop, Route
from tests.support.runs import ROOT, alive, marks, until

pytestmark = pytest.mark.live

HERE, OTHER = "127.0.0.1", "127.0.0.2"
DELAY_S = 0.02

Relayed = Callable[..., socket.socket]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.bind((HERE, 0))
        listener.listen()
        listener.settimeout(5)
        yield listener


@pytest.fixture
def relayed(
    server: socket.socket, tmp_path: Path, leak_oracle: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Relayed]:
    """Connects to the server through a relay."""
    for name, value in marks(tmp_path).items():
        monkeypatch.setenv(name, value)
    with contextlib.ExitStack() as stack:
        ports: dict[tuple[float, float], int] = {}

        def connect(there_s: float = DELAY_S, back_s: float = DELAY_S, source: str = HERE) -> socket.socket:
            delays = there_s, back_s
            if delays not in ports:
                ports[delays] = free_port()
                route = Route(port=ports[delays], target=server.getsockname(), delays_s={HERE: delays})
                relay = start_relay(HERE, [route])
                stack.callback(stop, relay)
            client = stack.enter_context(socket.socket())
            client.settimeout(5)
            client.bind((source, 0))
            client.connect((HERE, ports[delays]))
            return client

        yield connect


def stop(relay: subprocess.Popen[bytes]) -> None:
    stop_relay(relay)
    assert relay.returncode == 0


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind((HERE, 0))
        port: int = sock.getsockname()[1]
        return port


def accepted(server: socket.socket) -> socket.socket:
    sink = server.accept()[0]
    sink.settimeout(5)
    return sink


def read_all(sock: socket.socket) -> bytes:
    pieces = []
    while piece := sock.recv(1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def test_everything_arrives_in_order_both_ways(server: socket.socket, relayed: Relayed) -> None:
    client, sink = relayed(), accepted(server)
    there, back = os.urandom(3_000_000), os.urandom(3_000_000)
    with ThreadPoolExecutor(3) as pool:
        for sock, data in ((client, there), (sink, back)):
            pool.submit(send_and_end, sock, data)
        arrived = pool.submit(read_all, sink)
        assert (read_all(client) == back, arrived.result() == there) == (True, True)
    sink.close()


def send_and_end(sock: socket.socket, data: bytes) -> None:
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def test_nothing_arrives_before_its_time_and_a_reset_is_passed_on(server: socket.socket, relayed: Relayed) -> None:
    client, sink = relayed(0.03, 0.01), accepted(server)
    for _ in range(3):
        sent = time.monotonic()
        client.sendall(b"a")
        assert sink.recv(10) == b"a"
        arrived = time.monotonic()
        sink.sendall(b"b")
        assert client.recv(10) == b"b"
        assert arrived - sent >= 0.0299
        assert time.monotonic() - arrived >= 0.0099
    sink.close()
    client, sink = relayed(), accepted(server)
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, holding.RESET)
    sink.close()
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_client_waits_for_what_lies_between_it_and_the_server(server: socket.socket, relayed: Relayed) -> None:
    """One that is not listed waits for nothing, on the same port."""
    far, far_sink = relayed(0.2, 0.2), accepted(server)
    near, near_sink = relayed(0.2, 0.2, OTHER), accepted(server)
    sent = time.monotonic()
    far.sendall(b"a")
    near.sendall(b"b")
    near_sink.sendall(near_sink.recv(10))
    assert near.recv(10) == b"b"
    far_sink.setblocking(False)
    with pytest.raises(BlockingIOError):
        far_sink.recv(10)
    far_sink.settimeout(5)
    far_sink.sendall(far_sink.recv(10))
    assert far.recv(10) == b"a"
    assert time.monotonic() - sent >= 0.4
    for sink in (far_sink, near_sink):
        sink.close()


def test_one_half_may_end_before_the_other(server: socket.socket, relayed: Relayed) -> None:
    client, sink = relayed(), accepted(server)
    send_and_end(client, b"question")
    assert read_all(sink) == b"question"
    sink.sendall(b"answer")
    sink.close()
    assert read_all(client) == b"answer"


def test_who_does_not_read_stops_the_sender(server: socket.socket, relayed: Relayed) -> None:
    client, sink = relayed(0.0, 0.0), accepted(server)
    client.settimeout(0.5)
    sent, piece = 0, bytes(1 << 18)
    with contextlib.suppress(TimeoutError):
        while sent < 1 << 28:
            sent += client.send(piece)
    assert holding.HELD_BYTES <= sent < 1 << 27, "what is held, and what the sockets hold"
    client.shutdown(socket.SHUT_WR)
    assert len(read_all(sink)) == sent
    sink.close()


@contextlib.contextmanager
def in_this_thread(target: tuple[str, int]) -> Iterator[tuple[PreciseLoop, socket.socket]]:
    """A connection whose relay is turned by the test."""
    loop = PreciseLoop()
    with socket.socket() as listener, socket.socket() as client:
        listener.bind((HERE, 0))
        listener.listen()
        client.connect(listener.getsockname())
        holding.Connection(loop, listener.accept()[0], target, 0.001, 0.001)
        client.setblocking(False)
        yield loop, client
        client.close()
        turn_until(loop, lambda: idle(loop))
    loop.close()


def idle(loop: PreciseLoop) -> bool:
    """Nothing is awaited, and nothing held."""
    return not loop.selector.get_map() and loop.wait_s(math.inf) == math.inf


def turn_until(loop: PreciseLoop, reached: Callable[[], object], patience_s: float = 5.0) -> None:
    deadline = time.monotonic() + patience_s
    while not reached():
        assert time.monotonic() < deadline
        loop.turn(0.01)


def heard(sock: socket.socket, into: list[bytes]) -> bool:
    with contextlib.suppress(BlockingIOError):
        into.append(sock.recv(100))
    return bool(into)


def test_a_server_that_comes_up_late_gets_what_was_said_and_one_that_never_does_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = (HERE, free_port())
    with in_this_thread(target) as (loop, client):
        client.sendall(b"early")
        begun = time.monotonic()
        turn_until(loop, lambda: time.monotonic() > begun + 0.15)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(target)
            listener.listen()
            listener.setblocking(False)
            sinks: list[socket.socket] = []

            def accept() -> bool:
                with contextlib.suppress(BlockingIOError):
                    sinks.append(listener.accept()[0])
                return bool(sinks)

            turn_until(loop, accept)
            with sinks[0] as sink:
                sink.setblocking(False)
                said: list[bytes] = []
                turn_until(loop, partial(heard, sink, said))
                assert said == [b"early"]
    monkeypatch.setattr(holding, "CONNECT_PATIENCE_S", 0.1)
    with in_this_thread((HERE, free_port())) as (loop, client):
        client.sendall(b"early")
        turn_until(loop, lambda: idle(loop))
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind((HERE, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RelayFailed, match=r"of 1 servers at .* ended with code 1"):
            start_relay(HERE, [Route(port=port, target=(HERE, 1), delays_s={})])


def test_routes_are_added_while_it_relays(server: socket.socket, leak_oracle: None) -> None:
    """One whose port is taken is refused, and the others remain."""
    first, second = free_port(), free_port()
    relay = start_relay(HERE, [Route(port=first, target=server.getsockname(), delays_s={})])
    try:
        add_routes(relay, HERE, [Route(port=second, target=server.getsockname(), delays_s={})])
        with pytest.raises(RelayFailed, match=r"cannot listen: .*in use"):
            add_routes(relay, HERE, [Route(port=first, target=server.getsockname(), delays_s={})])
        for port in (first, second):
            with socket.create_connection((HERE, port), timeout=60) as client:
                sink = server.accept()[0]
                client.sendall(b"ping")
                assert sink.recv(4) == b"ping"
                sink.close()
    finally:
        stop(relay)
    with pytest.raises((RelayFailed, ValueError)):
        add_routes(relay, HERE, [])


def test_one_that_is_stopped_is_not_awaited(
    server: socket.socket, leak_oracle: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All jobs on these hosts would wait, since one process starts them."""
    monkeypatch.setattr(latency, "ANSWER_S", 0.05)
    relay = start_relay(HERE, [Route(port=free_port(), target=server.getsockname(), delays_s={})])
    relay.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(RelayFailed, match="does not answer within"):
            add_routes(relay, HERE, [])
        assert relay.wait(60) == -signal.SIGKILL
    finally:
        stop_relay(relay)


PARENT = """
import sys, time
from runtime.live.hosts.latency import start_relay
from runtime.live.hosts.relay import Route
print(start_relay("127.0.0.1", [Route(port=0, target=("127.0.0.1", 1), delays_s={})]).pid, flush=True)
time.sleep(60)
"""


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    """The leak oracle, too, would find it."""
    words = [sys.executable, "-c", PARENT]
    env = {**os.environ, **marks(tmp_path)}
    with subprocess.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        relay = int(parent.stdout.readline())
        assert alive(relay)
        parent.send_signal(signal.SIGKILL)
    until(lambda: not alive(relay), "its end", 1.0)
