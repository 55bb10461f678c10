"""Links of machines elsewhere: who receives which rate, what is claimed when, and what becomes of tasks that go."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.live.control.link_pacing import LinkPacing, LinkRate
from runtime.live.hosts.rules import PAYLOAD_FRAC
from runtime.live.tasks.link_orders import LinkOrders
from runtime.live.transport.auth import Identity
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import Heartbeat, LinksPaced, Message, PaceLinks
from strategies.protocol import NodeId
from tests.unit.live.test_gradients_in_flight import Place as ServerAlone

FULL = 1e6
SERVER, AWAY, NEAR = NodeId.server(0), NodeId.worker(1), NodeId.worker(0)
HALF = round(FULL / 2 * PAYLOAD_FRAC)


class Scene:
    """Worker 1 on machine 1; worker 0 and the server on machine 0; all are connected."""

    def __init__(self) -> None:
        self.placed = {"worker:0": 0, "worker:1": 1, "server:0": 0}
        self.here = [SERVER, NEAR, AWAY]
        self.sent: list[tuple[NodeId, PaceLinks]] = []
        self.rates: list[LinkRate] = []
        self.paced = LinkPacing(FULL, lambda: self.placed, lambda: self.here, self.send)

    def send(self, node: NodeId, message: Message) -> None:
        assert isinstance(message, PaceLinks)
        self.sent.append((node, message))

    def change(self, target: str, level: float) -> None:
        self.paced.change(target, level, self.rates.append)

    def answer(self, *, slower: int = 0) -> None:
        """Every task says that its kernel holds what it was asked to, or so much less."""
        sent, self.sent = self.sent, []
        before: dict[NodeId, dict[str, int]] = getattr(self, "before", {})
        for node, message in sent:
            achieved: dict[str, int | None] = dict.fromkeys(before.get(node, {}))
            achieved |= {name: rate - slower for name, rate in message.towards.items()}
            before[node] = message.towards
            self.paced.answered(node, LinksPaced(order=message.order, achieved=achieved))
        self.before = before


def test_both_ends_receive_it_and_only_whom_a_window_changes_something() -> None:
    scene = Scene()
    scene.change("link:1", 0.5)
    assert {node: message.towards for node, message in scene.sent} == {
        AWAY: {"server:0": HALF},
        SERVER: {"worker:1": HALF},
    }
    assert scene.rates == []
    scene.answer()
    assert scene.rates == [LinkRate(FULL / 2, pytest.approx(FULL / 2))]
    scene.change("link:1", 1.0)
    assert {node: message.towards for node, message in scene.sent} == {AWAY: {}, SERVER: {}}
    scene.answer()
    assert scene.rates[1:] == [LinkRate(None, None)]
    scene = Scene()
    scene.change("link:1", 0.5)
    scene.answer()
    scene.change("link:0", 0.75)
    assert scene.sent == []
    assert scene.rates[1] == LinkRate(FULL * 0.75, None), "nobody was asked, so nothing was read"
    scene = Scene()
    scene.change("link:1>0", 0.5)
    ((node, order),) = scene.sent
    scene.paced.answered(node, LinksPaced(order=order.order, achieved={}, problem="protocol not available"))
    assert scene.rates == [LinkRate(FULL / 2, None, "worker:1: protocol not available")]
    scene = Scene()
    scene.paced.ready(AWAY)
    scene.paced.look()
    assert scene.sent == []


def test_who_goes_is_not_waited_for_and_the_next_incarnation_receives_the_rates_in_force() -> None:
    scene = Scene()
    scene.change("link:1", 0.5)
    scene.here.remove(AWAY)
    scene.paced.left(AWAY)
    assert scene.rates == []
    late = [scene.sent.pop(index) for index, (node, _) in enumerate(scene.sent) if node == AWAY]
    scene.answer()
    assert len(scene.rates) == 1
    for node, order in late:  # it was on its way
        scene.paced.answered(node, LinksPaced(order=order.order, achieved={"server:0": 1}))
    assert len(scene.rates) == 1
    scene.here.append(AWAY)
    scene.paced.ready(AWAY)
    assert [(node, message.towards) for node, message in scene.sent] == [(AWAY, {"server:0": HALF})]
    scene.answer()
    assert len(scene.rates) == 1, "it is no change of the plan"
    scene = Scene()

    def send(node: NodeId, message: Message) -> None:
        if node == AWAY:
            scene.here.remove(AWAY)
            scene.paced.left(AWAY)
        else:
            scene.send(node, message)

    scene.paced.send = send
    scene.change("link:1", 0.5)
    assert scene.rates == [], "the server has not answered"
    scene.answer()
    assert len(scene.rates) == 1


def test_a_newcomer_takes_its_part_from_others_and_gives_it_back() -> None:
    scene = Scene()
    scene.change("link:1", 0.5)
    scene.answer()
    more = NodeId.worker(2)
    scene.placed["worker:2"] = 1
    scene.here.append(more)
    scene.paced.ready(more)
    part = {"server:0": round(FULL / 4 * PAYLOAD_FRAC)}
    assert {node: message.towards for node, message in scene.sent if node != SERVER} == {AWAY: part, more: part}
    scene.answer()
    del scene.placed["worker:2"]
    scene.here.remove(more)
    scene.paced.left(more)
    scene.paced.look()
    assert dict(scene.sent)[AWAY].towards == {"server:0": HALF}


def connected() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        return ours, listener.accept()[0]


@pytest.fixture
def links() -> Iterator[ServerLinks]:
    """A worker's links to two servers."""
    links = ServerLinks(2, bytes(32), Identity("worker", 0))
    pairs = [connected() for _ in range(2)]
    links.socks = [ours for ours, _ in pairs]
    links._named = {f"server:{number}": ours for number, (ours, _) in enumerate(pairs)}
    yield links
    links.close()
    for _, theirs in pairs:
        theirs.close()


def test_a_worker_paces_what_it_is_asked_to_and_releases_the_rest(links: ServerLinks) -> None:
    said: list[Any] = []

    class Channel:
        def tell(self, message: Message) -> None:
            said.append(message)

    orders = LinkOrders(links, Channel())
    assert orders.takes(PaceLinks(order=1, towards={"server:0": 1000, "server:9": 5}))
    assert orders.takes(PaceLinks(order=2, towards={"server:1": 2000}))
    assert not orders.takes(Heartbeat())
    assert said == [
        LinksPaced(order=1, achieved={"server:0": 1000}),
        LinksPaced(order=2, achieved={"server:0": None, "server:1": 2000}),
    ]


def test_of_a_strategy_s_rate_and_a_link_s_the_lower_holds(links: ServerLinks) -> None:
    links.pace(1500)
    assert links.pace_towards({"server:0": 1000, "server:1": 2000}) == {"server:0": 1000, "server:1": 1500}
    assert links.pace(None) == 1000
    assert links.pace_towards({}) == {"server:0": None, "server:1": None}


def test_a_server_paces_its_links_at_once_although_other_orders_wait() -> None:
    place = ServerAlone()
    told: list[Message] = []
    place.server.send = told.append
    ours, theirs = connected()
    place.lines[1].link.sock.close()
    place.lines[1].link.sock = ours
    place.server.take(PaceLinks(order=4, towards={"worker:1": 1000}))
    place.server.take(PaceLinks(order=5, towards={}))
    assert told == [LinksPaced(order=4, achieved={"worker:1": 1000}), LinksPaced(order=5, achieved={"worker:1": None})]
    theirs.close()
    for line in place.lines:
        line.close()
