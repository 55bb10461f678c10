"""The control channel keeps messages whole and in order, however the stream is cut."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.live.transport.address import Address, connect, listen, set_deadline
from runtime.live.transport.auth import Identity, check_hello, receive_exactly
from runtime.live.transport.channel import CHUNK_BYTES, BlockingChannel, LoopChannel
from runtime.live.transport.messages import MAX_MESSAGE_BYTES, Attached, Heartbeat, LinkLost, Message, encode
from tests.support.examples import examples

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(10)
        yield ours, theirs


def messages_in(channel: LoopChannel) -> list[Message]:
    """All available data, and no error."""
    return list(channel.receive())


SOME: list[Message] = [Heartbeat(), Attached(generation=300), LinkLost(generation=1, reason="é" * 70_000), Heartbeat()]
STREAM = b"".join(encode(message) for message in SOME)


@examples(20)
@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_any_cuts_of_a_long_stream(cuts: Sequence[int]) -> None:
    ours, theirs = socket.socketpair()
    bounds = [0, *sorted(cuts), len(STREAM)]
    with ours, theirs, ThreadPoolExecutor(1) as pool:
        channel, got = LoopChannel(ours), []
        for lo, hi in itertools.pairwise(bounds):
            sent = pool.submit(theirs.sendall, STREAM[lo:hi])
            while not sent.done():
                got += messages_in(channel)
            got += messages_in(channel)
        assert got == SOME


def until_the_end(channel: LoopChannel) -> list[Message]:
    """Everything that comes before the end of the stream; fails when there is none."""
    got = []
    for _ in range(10):
        try:
            for message in channel.receive():
                got += [message]
        except ConnectionResetError:
            return got
    raise AssertionError("the end was not noticed")


def test_the_end_of_the_stream_comes_after_what_was_said_also_in_exactly_one_chunk(pair: Pair) -> None:
    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * CHUNK_BYTES)
    overhead = len(encode(LinkLost(generation=1, reason="x" * 200_000))) - 200_000
    said = [Heartbeat(), LinkLost(generation=1, reason="x" * (CHUNK_BYTES - len(encode(Heartbeat())) - overhead))]
    pair[1].sendall(b"".join(map(encode, said)))
    pair[1].close()
    assert until_the_end(LoopChannel(pair[0])) == said


def test_a_length_without_end_is_refused_before_anything_is_stored(pair: Pair) -> None:
    channel = LoopChannel(pair[0])
    pair[1].sendall((MAX_MESSAGE_BYTES + 1).to_bytes(4, "little"))
    with pytest.raises(ConnectionError, match="refused"):
        messages_in(channel)


@given(st.binary(min_size=4, max_size=300))
def test_garbage_is_refused_in_one_of_two_ways(data: bytes) -> None:
    """Never by anything that the event loop does not expect; what is incomplete waits."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = LoopChannel(ours)
        theirs.sendall(data)
        try:
            assert messages_in(channel) == []
        except (ConnectionError, msgspec.DecodeError):
            return
        assert int.from_bytes(data[:4], "little") + 4 > len(data)


def test_the_heartbeat_does_not_break_into_a_message(pair: Pair) -> None:
    """Two threads write, one of them little and often."""
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    channel, reader = LoopChannel(pair[0]), LoopChannel(pair[1])
    beats = 300

    def beat() -> None:
        for _ in range(beats):
            channel.send(encode(Heartbeat()))

    thread = threading.Thread(target=beat)
    thread.start()
    long = LinkLost(generation=1, reason="x" * 10_000)
    got: list[Message] = []
    for _ in range(50):
        channel.send(encode(long))
        got += messages_in(reader)
        channel.flush()
    thread.join(10)
    while channel.flush():
        got += messages_in(reader)
    got += messages_in(reader)
    assert got.count(long) == 50
    assert got.count(Heartbeat()) == beats
    assert len(got) == 50 + beats


@pytest.fixture
def blocking() -> Iterator[tuple[BlockingChannel, socket.socket]]:
    """A channel to a listener of ours, and the listener's end of it."""
    secret = bytes(32)
    listener, address = listen("tcp")

    def accept() -> socket.socket:
        listener.settimeout(10)
        sock, _ = listener.accept()
        sock.settimeout(10)
        sock.sendall(bytes(32))
        _, proof = check_hello(secret, receive_exactly(sock, 128), bytes(32))
        sock.sendall(proof)
        return sock

    with listener, ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(accept)
        channel = BlockingChannel(address, secret, Identity("worker", 0))
        with channel.sock, accepted.result() as theirs:
            yield channel, theirs


def test_a_task_reads_one_message_at_a_time_and_waits_no_longer_than_its_deadline(
    blocking: tuple[BlockingChannel, socket.socket],
) -> None:
    """A length may come in two parts; a message whose rest does not come is the end."""
    channel, theirs = blocking
    theirs.sendall(STREAM)
    assert [channel.receive() for _ in SOME] == SOME
    set_deadline(channel.sock, 0.05)
    assert channel.receive() is None
    short = encode(Attached(generation=1))
    theirs.sendall(short[:2])
    rest = threading.Timer(0.0, theirs.sendall, [short[2:]])
    rest.start()
    assert channel.receive() == Attached(generation=1)
    rest.join(10)
    theirs.sendall(encode(SOME[1])[:-1])
    with pytest.raises(ConnectionResetError, match="the rest of a message"):
        channel.receive()


def test_so_is_a_coordinator_that_does_not_read(blocking: tuple[BlockingChannel, socket.socket]) -> None:
    channel, _ = blocking
    set_deadline(channel.sock, 0.05)
    with pytest.raises(ConnectionResetError, match="does not read"):
        channel.send(bytes(64 << 20))


def test_a_task_refuses_a_length_without_end_and_notices_that_the_coordinator_is_gone(
    blocking: tuple[BlockingChannel, socket.socket],
) -> None:
    channel, theirs = blocking
    theirs.sendall(b"\xff\xff\xff\xff")
    with pytest.raises(ConnectionError, match="refused"):
        channel.receive()
    theirs.close()
    with pytest.raises(ConnectionResetError):
        channel.receive()


@pytest.mark.parametrize(
    "address", [Address(transport="tcp", host="127.0.0.1", port=9), Address(transport="shm", name="stragglab-nobody")]
)
def test_a_refused_connection_leaves_no_socket(address: Address) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConnectionRefusedError) as refused:
        connect(address)
    assert len(os.listdir("/proc/self/fd")) == before, refused


def test_a_task_and_its_heartbeat_take_turns(blocking: tuple[BlockingChannel, socket.socket]) -> None:
    channel, theirs = blocking
    reader = LoopChannel(theirs)
    threads = [threading.Thread(target=lambda: [channel.tell(SOME[2]) for _ in range(10)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    got: list[Message] = []
    while len(got) < 20:
        got += messages_in(reader)
    for thread in threads:
        thread.join(10)
    assert got == [SOME[2]] * 20
