"""Workers that wait for a server which says nothing any more, as on a machine that is gone. No process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import pytest

from runtime.live.tasks.client import serve
from runtime.live.transport.address import set_deadline
from runtime.live.transport.frames import PARAMS, pack
from runtime.live.transport.messages import Attach, Attached, Forget, Goodbye, Message, ReferenceReady
from tests.unit.live.test_datalink import GENERATION, Servers

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

    def receive(self) -> Message | None:
        return self.to_come.popleft()

    def is_readable(self) -> bool:
        self.looks += 1
        assert self.looks < MOST_LOOKS, "it would wait forever"
        self.looked(self.looks)
        return bool(self.to_come)


@pytest.fixture
def servers() -> Iterator[Servers]:
    servers = Servers(32)
    for sock in servers.links.socks:
        set_deadline(sock, 0.01)
    yield servers
    servers.close()


@pytest.mark.parametrize("waits", ["for parameters", "for the rest of them", "for a receipt"])
def test_a_later_generation_ends_the_wait(servers: Servers, waits: str) -> None:
    """There is no answer to an order that is void."""
    links = servers.links

    def obey(order: Message) -> Message:
        if waits == "for a receipt":
            links.push(5)
        else:
            links.receive_params(5)
        return ANSWER

    if waits == "for the rest of them":
        servers.theirs[0].sendall(pack(PARAMS, GENERATION, 5, 1, 64) + bytes(8))
    channel = Channel(ORDER, Attach(generation=GENERATION + 1, servers=(), ranges=()), Goodbye())
    serve(channel, links, obey)
    assert channel.said == [Attached(generation=GENERATION + 1)]


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
        channel.to_come.append(Goodbye())
        return ANSWER

    channel = Channel(ORDER, Attach(generation=GENERATION, servers=(), ranges=()))
    channel.looked = looked
    serve(channel, servers.links, obey)
    assert channel.said == [ANSWER, Attached(generation=GENERATION)]
