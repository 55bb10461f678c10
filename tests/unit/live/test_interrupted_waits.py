"""Workers that wait for a server which says nothing any more, as on a machine that is gone. No process."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.live.tasks.client import serve
from runtime.live.tasks.worker import Worker
from runtime.live.transport import links
from runtime.live.transport.address import Address, set_deadline
from runtime.live.transport.frames import PARAMS, pack
from runtime.live.transport.messages import Attach, Attached, Forget, Goodbye, Message, Push, ReferenceReady
from tests.unit.live.test_datalink import GENERATION, LARGE, Servers

MOST_LOOKS = 50
ORDER, ANSWER = Forget(grad_id=5), ReferenceReady(ticket=5)
"""Any order, and any answer."""


class Channel:
    """In the place of the control channel; ``looked`` is called with the number of every look."""

    def __init__(self, *messages: Message) -> None:
        self.to_come, self.said = deque(messages), list[Message]()
        self.looked: Callable[[int], None] = lambda number: None
        self.looks = 0

    def tell(self, message: Message) -> None:
        self.said.append(message)
        if isinstance(message, Attached):
            self.to_come.append(Goodbye())  # not before: that would end a wait, too

    def receive(self) -> Message | None:
        return self.to_come.popleft()

    def is_readable(self) -> bool:
        self.looks += 1
        assert self.looks < MOST_LOOKS, "it would wait forever"
        self.looked(self.looks)
        return bool(self.to_come)


def servers_of(num_floats: int) -> Servers:
    servers = Servers(num_floats)
    for sock in servers.links.socks:
        set_deadline(sock, 0.01)
    return servers


@pytest.fixture
def servers() -> Iterator[Servers]:
    servers = servers_of(32)
    yield servers
    servers.close()


@pytest.mark.parametrize("waits", ["for parameters", "for the rest of them", "to send", "for a receipt"])
def test_a_later_generation_ends_the_wait(waits: str) -> None:
    """There is no answer to an order that is void."""
    servers = servers_of(LARGE if waits == "to send" else 32)
    ours = servers.links

    def obey(order: Message) -> Message:
        if waits in ("to send", "for a receipt"):
            ours.push(5)
        else:
            ours.receive_params(5)
        return ANSWER

    if waits == "for the rest of them":
        servers.theirs[0].sendall(pack(PARAMS, GENERATION, 5, 1, 64) + bytes(8))
    channel = Channel(ORDER, Attach(generation=GENERATION + 1, servers=(), ranges=()))
    serve(channel, ours, obey)
    assert channel.said == [Attached(generation=GENERATION + 1)]
    servers.close()


@pytest.mark.parametrize("num_floats", [32, LARGE])
def test_it_ends_the_wait_for_an_aggregator(num_floats: int) -> None:
    """To send, or for a receipt; nothing is said of a gradient that is void."""
    servers, (sock, theirs) = servers_of(num_floats), socket.socketpair()
    set_deadline(sock, 0.01)
    via = Address(transport="tcp", port=1)
    servers.links._aggregators[via] = sock
    worker: Any = SimpleNamespace(links=servers.links, _let_go=lambda grad_id: None)
    push = Push(grad_id=5, via=via)
    channel = Channel(push, Attach(generation=GENERATION + 1, servers=(), ranges=()))
    serve(channel, servers.links, lambda order: Worker._pass(worker, push))
    assert channel.said == [Attached(generation=GENERATION + 1)]
    for one in (servers, theirs):
        one.close()


def test_who_reads_nothing_for_long_counts_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = servers_of(LARGE)
    monkeypatch.setattr(links, "SOCKET_DEADLINE_S", 0.0)
    with pytest.raises(ConnectionResetError, match="does not receive the gradient"):
        servers.links.push(5)
    servers.close()


def test_so_does_the_end_of_the_job(servers: Servers) -> None:
    channel = Channel(ORDER, Goodbye())
    serve(channel, servers.links, lambda order: ANSWER if servers.links.receive_params(5) else None)
    assert channel.said == []


def test_another_that_delivers_in_the_same_generation_does_not(servers: Servers) -> None:
    """The order still counts, and whoever has it sends the parameters when it can."""

    def looked(number: int) -> None:
        if number == 3:
            for sock in servers.theirs:
                sock.sendall(pack(PARAMS, GENERATION, 5, 1, 64) + bytes(64))

    def obey(order: Message) -> Message:
        servers.links.receive_params(5)
        return ANSWER

    channel = Channel(ORDER, Attach(generation=GENERATION, servers=(), ranges=()))
    channel.looked = looked
    serve(channel, servers.links, obey)
    assert channel.said == [ANSWER, Attached(generation=GENERATION)]
