"""TLS below sockets that behave as ordinary ones: against the standard library's own, which nobody here wrote."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.errors import ConfigError
from runtime.live.transport.address import connect, listen, set_deadline
from runtime.live.transport.auth import AuthError, Greeting, Identity, call
from runtime.live.transport.frames import ACK, HEADER_BYTES, PUSH, pack
from runtime.live.transport.links import push_frame
from runtime.live.transport.secured import (
    Secured,
    client_context,
    holds_data,
    is_readable,
    new_certificate,
    server_context,
)

SECRET, WHO = bytes(range(32)), Identity("worker", 1)
PATIENCE_S = 10.0


@pytest.fixture(scope="module")
def certificate() -> str:
    return new_certificate()


@pytest.fixture
def pair(certificate: str) -> Iterator[tuple[Secured, ssl.SSLSocket]]:
    """Ours, which accepts, and the standard library's; both are blocking."""
    with connected(certificate) as stack:
        yield stack.ours, stack.theirs


class connected(ExitStack):
    """One connection of two kinds of ends."""

    ours: Secured
    theirs: ssl.SSLSocket

    def __init__(self, certificate: str) -> None:
        super().__init__()
        here, there = socket.socketpair()
        self.ours = self.enter_context(Secured(here, server_context(certificate), server_side=True))
        there.settimeout(PATIENCE_S)
        set_deadline(self.ours, PATIENCE_S)
        with ThreadPoolExecutor(1) as pool:
            shaken = pool.submit(lambda: client_context().wrap_socket(there))
            self.ours._greet(0)
            self.theirs = self.enter_context(shaken.result())


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def read_all(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := sock.recv(count - len(data))):
        data += more
    return data


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.sampled_from([1, 40, 16384, 16385, 300_000]), min_size=1, max_size=5), gathered=st.booleans())
def test_what_is_written_is_read_whatever_the_pieces(certificate: str, sizes: list[int], gathered: bool) -> None:
    parts = [os.urandom(size) for size in sizes]

    def write(sock: socket.socket) -> None:
        for part in parts:
            sent = sock.sendmsg([part[:40], part[40:]]) if gathered else 0
            sock.sendall(part[sent:])

    with connected(certificate) as ends:
        writer = in_background(lambda: write(ends.ours))
        assert read_all(ends.theirs, sum(sizes)) == b"".join(parts)
        writer.join(PATIENCE_S)
        writer = in_background(lambda: [ends.theirs.sendall(part) for part in parts])
        for part in parts:
            got = bytearray(len(part))
            assert ends.ours.recv_into(got, len(got), socket.MSG_WAITALL) == len(part)
            assert got == part
        writer.join(PATIENCE_S)


def test_a_writer_that_does_not_wait_repeats_what_was_not_taken(pair: tuple[Secured, ssl.SSLSocket]) -> None:
    """As with an ordinary socket: what ``send`` did not count is written again, whole or in other pieces."""
    ours, theirs = pair
    data = os.urandom(4_000_000)
    ours.setblocking(False)
    sent = ours.sendmsg([data[:40], data[40:1000]])
    assert sent == 1000
    with suppress(BlockingIOError):  # how much the socket below takes is its own affair
        sent += ours.send(data[sent:])
    assert sent < len(data)
    read: list[bytes] = []
    reader = in_background(lambda: read.append(read_all(theirs, len(data))))
    step = 1000
    while sent < len(data):
        try:
            sent += ours.send(data[sent : sent + step])
            step = 777_777
        except BlockingIOError:
            select.select([], [ours], [], PATIENCE_S)
    reader.join(PATIENCE_S)
    assert read == [data]


def test_a_short_read_leaves_nothing_that_a_selector_does_not_see(pair: tuple[Secured, ssl.SSLSocket]) -> None:
    ours, theirs = pair
    theirs.sendall(b"first")
    theirs.sendall(b"second")
    while len(ours._peeked) == 0 and not is_readable(ours):
        pass
    assert ours.recv(5, socket.MSG_WAITALL) == b"first"
    assert ours.recv(6, socket.MSG_WAITALL) == b"second"
    assert not holds_data(ours)
    theirs.sendall(b"x" * 20_000)  # two records
    assert len(ours.recv(1, socket.MSG_WAITALL)) == 1
    assert holds_data(ours)
    assert is_readable(ours)
    assert len(ours.recv(19_999, socket.MSG_WAITALL)) == 19_999
    assert not is_readable(ours)
    with pytest.raises(BlockingIOError):
        ours.recv(1, socket.MSG_DONTWAIT)
    ours, theirs = pair
    set_deadline(ours, 0.02)
    with pytest.raises(BlockingIOError):
        ours.recv(3)
    theirs.sendall(b"ab")
    assert ours.recv(3, socket.MSG_WAITALL) == b"ab"
    theirs.sendall(b"c")
    assert ours.recv(1) == b"c"


def test_one_byte_can_be_looked_at_before_it_is_read(pair: tuple[Secured, ssl.SSLSocket]) -> None:
    ours, theirs = pair
    with pytest.raises(BlockingIOError):
        ours.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    theirs.sendall(b"ab")
    assert ours.recv(1, socket.MSG_PEEK) == b"a"
    assert ours.recv(2, socket.MSG_WAITALL) == b"ab"
    theirs.setblocking(False)
    with pytest.raises(ssl.SSLWantReadError):  # it says that it ends, and would wait until we do
        theirs.unwrap()
    assert ours.recv(1, socket.MSG_PEEK) == b""


def test_a_frame_is_whole_although_the_deadline_passes_meanwhile(pair: tuple[Secured, ssl.SSLSocket]) -> None:
    ours, theirs = pair
    set_deadline(ours, 0.01)
    payload, found = os.urandom(1 << 20), bytearray()

    def read() -> None:
        time.sleep(0.05)  # until the writer has been interrupted
        found.extend(read_all(theirs, HEADER_BYTES + len(payload)))
        theirs.sendall(pack(ACK, 0, 5, 0, 0))

    reader = in_background(read)
    push_frame(ours, 0, 5, memoryview(payload))
    reader.join(PATIENCE_S)
    assert found == pack(PUSH, 0, 5, 0, len(payload)) + payload


def test_the_end_of_the_stream_is_an_empty_read_whether_it_was_announced_or_not(
    pair: tuple[Secured, ssl.SSLSocket],
) -> None:
    ours, theirs = pair
    theirs.sendall(b"last")
    os.close(theirs.detach())
    assert ours.recv(10, socket.MSG_WAITALL) == b"last"
    assert ours.recv(10) == b""


def greet(listener: socket.socket) -> Identity:
    """The accepting half of our handshake, on a socket that does not wait."""
    listener.setblocking(True)
    sock, _ = listener.accept()
    with sock:
        greeting = Greeting(sock, SECRET)
        identity = None
        while identity is None:
            sock.setblocking(True)
            set_deadline(sock, PATIENCE_S)
            identity = greeting.step()
        greeting.welcome()
        return identity


def test_both_ends_prove_the_secret_and_that_they_see_one_certificate(certificate: str) -> None:
    listener, address = listen("tcp", certificate=certificate)
    assert address.tls
    with listener, ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(greet, listener)
        with connect(address) as sock:
            call(sock, SECRET, WHO)
        assert accepted.result() == WHO


def test_somebody_between_them_who_has_another_certificate_is_noticed_by_both(certificate: str) -> None:
    """He speaks TLS with each, and passes every byte on."""
    listener, address = listen("tcp", certificate=certificate)
    trap, trapped = listen("tcp", certificate=new_certificate())

    def pass_on() -> None:
        trap.setblocking(True)
        victim, _ = trap.accept()
        with victim, connect(address) as behind:
            victim.setblocking(True)
            victim.sendall(behind.recv(32, socket.MSG_WAITALL))
            behind.sendall(victim.recv(128, socket.MSG_WAITALL))
            victim.sendall(behind.recv(32) or bytes(32))

    with listener, trap, ThreadPoolExecutor(2) as pool:
        accepted, between = pool.submit(greet, listener), pool.submit(pass_on)
        with connect(trapped) as sock, pytest.raises(AuthError):
            call(sock, SECRET, WHO)
        with pytest.raises(AuthError):
            accepted.result()
        between.result()


def test_who_speaks_plainly_is_refused_in_words_and_so_is_a_machine_without_openssl(
    certificate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = socket.socketpair()
    with Secured(here, server_context(certificate), server_side=True) as ours, there:
        there.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with pytest.raises(ConnectionResetError, match="TLS: "):
            ours.recv(1)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match=r"launcher\.tls=true: the program openssl makes .* is not installed"):
        new_certificate()
