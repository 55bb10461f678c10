"""What a worker keeps for replicas: what it gives them, what it need not give any more. No process."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from runtime.live.tasks import gradient_cache
from runtime.live.tasks.gradient_cache import GradientCache
from runtime.live.tasks.split_channel import SplitChannel
from runtime.live.transport.address import Address
from runtime.live.transport.auth import Identity, receive_exactly
from runtime.live.transport.frames import ACK, HEADER_BYTES, PUSH, pack, unpack
from runtime.live.transport.messages import Fence, Forget, Message, Release, ReplicateGradient, ReplicationFailed

GENERATION = 2
LONG_S = 20.0
"""Nobody waits for so long unless something is broken."""


class Channel:
    """In the place of the control channel."""

    def __init__(self) -> None:
        self.said: queue.Queue[Message] = queue.Queue()
        self.to_come: queue.Queue[Message | OSError | None] = queue.Queue()

    def tell(self, message: Message) -> None:
        self.said.put(message)

    def receive(self) -> Message | None:
        message = self.to_come.get(timeout=LONG_S)
        if isinstance(message, OSError):
            raise message
        return message


class Worker:
    """A cache, and the replicas' ends of its connections."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.channel, self.calls = Channel(), list[Identity]()
        self.ends: queue.Queue[socket.socket] = queue.Queue()
        self.kept_open: list[socket.socket] = []
        self.gone = threading.Event()
        monkeypatch.setattr(gradient_cache, "connect", self.connect)
        monkeypatch.setattr(gradient_cache, "call", lambda sock, secret, identity: self.calls.append(identity))
        self.cache = GradientCache(b"", Identity("worker", 3, 1), self.channel)  # type: ignore[arg-type]
        self.cache.begin(GENERATION)
        for number in range(4):
            self.cache.keep(number, np.full(2, number, np.float32))

    def connect(self, address: Address) -> socket.socket:
        if self.gone.is_set():
            raise ConnectionRefusedError("refused")
        ours, theirs = socket.socketpair()
        theirs.settimeout(LONG_S)
        self.ends.put(theirs)
        self.kept_open.append(theirs)
        return ours

    def give(self, grad_id: int, server: int = 1, incarnation: int = 0, generation: int = GENERATION) -> None:
        to = Address(transport="tcp", host="127.0.0.1", port=server)
        order = ReplicateGradient(grad_id=grad_id, generation=generation, server=server, incarnation=incarnation, to=to)
        assert self.cache.takes(order)

    def takes(self, end: socket.socket) -> tuple[int, list[float]]:
        """A replica reads a gradient, and acknowledges it."""
        header = unpack(receive_exactly(end, HEADER_BYTES))
        assert (header.kind, header.generation) == (PUSH, GENERATION)
        grad = np.frombuffer(receive_exactly(end, header.length), np.float32)
        end.sendall(pack(ACK, GENERATION, header.ticket, 0, 0))
        return header.ticket, grad.tolist()

    @property
    def end(self) -> socket.socket:
        return self.ends.get(timeout=LONG_S)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    worker = Worker(monkeypatch)
    yield worker
    for sock in (*worker.kept_open, *worker.cache._socks.values()):
        sock.close()


def test_it_gives_copies_on_one_connection_and_still_has_them(worker: Worker) -> None:
    grad = np.full(2, 7.0, np.float32)
    worker.cache.keep(9, grad)
    grad[:] = 8.0
    worker.give(9)
    end = worker.end
    assert worker.takes(end) == (9, [7.0, 7.0])
    worker.give(9)
    assert worker.takes(end) == (9, [7.0, 7.0])
    assert worker.calls == [Identity("worker", 3, 1, GENERATION)]


@pytest.mark.parametrize("why", ["released", "generation", "replica is lost"])
def test_what_nobody_needs_is_not_given(worker: Worker, why: str) -> None:
    if why != "generation":
        over = Release(grads=(0,)) if why == "released" else Fence(role="server", id=1, incarnation=0)
        assert worker.cache.takes(over)
    worker.give(0, generation=GENERATION - (why == "generation"))
    worker.give(1, incarnation=1)
    assert worker.takes(worker.end) == (1, [1.0, 1.0])
    assert worker.channel.said.empty()


def test_a_replica_that_cannot_be_reached_is_named(worker: Worker) -> None:
    worker.gone.set()
    worker.give(2, server=4, incarnation=6)
    said: Any = worker.channel.said.get(timeout=LONG_S)
    assert isinstance(said, ReplicationFailed)
    assert (said.server, said.incarnation) == (4, 6)
    assert said.reason == "worker 3 could not send gradient 2 to it (refused)"
    worker.gone.clear()
    worker.cache.begin(GENERATION)
    worker.cache.keep(5, np.ones(2, np.float32))
    worker.give(0)
    worker.give(5)
    assert worker.takes(worker.end) == (5, [1.0, 1.0]), "nothing is kept from one generation to the next"


def test_each_incarnation_of_a_replica_has_its_own_connection(worker: Worker) -> None:
    worker.give(1)
    first = worker.end
    worker.takes(first)
    worker.give(2, incarnation=1)
    assert worker.takes(worker.end) == (2, [2.0, 2.0])
    assert first.recv(1) == b"", "the old one is closed"


def test_the_worker_gets_all_other_orders_in_their_order(worker: Worker) -> None:
    channel = SplitChannel(worker.channel, worker.cache.takes)  # type: ignore[arg-type]
    for message in (Forget(grad_id=1), None, Release(grads=(0,)), Forget(grad_id=2), ConnectionResetError("gone")):
        worker.channel.to_come.put(message)
    assert [channel.receive(), channel.receive()] == [Forget(grad_id=1), Forget(grad_id=2)]
    for _ in range(2):
        with pytest.raises(ConnectionResetError, match="gone"):
            channel.receive()
    worker.give(0)
    worker.give(1)
    assert worker.takes(worker.end)[0] == 1


def test_the_worker_hears_that_its_control_channel_is_broken_in_whatever_way(worker: Worker) -> None:
    """A message whose rest does not come is no end of the stream."""
    channel = SplitChannel(worker.channel, worker.cache.takes)  # type: ignore[arg-type]
    worker.channel.to_come.put(BlockingIOError("resource temporarily unavailable"))
    with pytest.raises(ConnectionResetError, match="unavailable"):
        channel.receive()


def test_after_a_broken_connection_there_is_another(worker: Worker) -> None:
    worker.give(2)
    worker.end.close()
    assert isinstance(worker.channel.said.get(timeout=LONG_S), ReplicationFailed)
    worker.give(2)
    assert worker.takes(worker.end) == (2, [2.0, 2.0])
