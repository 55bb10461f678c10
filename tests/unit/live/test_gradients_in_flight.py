"""Gradients without receipts: orders wait for them, and what becomes of those whose worker is gone. No process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.core.layout import Layout
from runtime.live.control.tasks import death
from runtime.live.tasks.server import LostGradientError, Server, server_main
from runtime.live.tasks.store import Store
from runtime.live.transport.auth import Identity
from runtime.live.transport.frames import ACK, HEADER_BYTES, PARAMS, POST, PUSH, pack, unpack
from runtime.live.transport.messages import Fence, Goodbye, LoadCheckpoint, Message, Pace, Paced, SaveCheckpoint, Update
from tests.unit.live.test_datalink import GENERATION, Line, Servers, Vector, bare_server
from tests.unit.live.test_store import TALLY, order, receive, vector

ONE, TWO = vector(1.0), vector(2.0)


def post(grad_id: int, grad: Vector) -> bytes:
    return pack(POST, GENERATION, grad_id, 0, grad.nbytes) + grad.tobytes()


class Place:
    """A server with two workers, of which each computes one gradient: worker k the one numbered k."""

    def __init__(self) -> None:
        self.lines = [Line(worker) for worker in range(2)]
        self.store = Store(vector(0.0), TALLY)
        self.server: Any = bare_server(
            self.store, links={("worker", k): line.link for k, line in enumerate(self.lines)}
        )
        self.saved: list[int] = []
        self.server._save = lambda message: self.saved.append(self.store.version)
        self.take(Update(deliver=(("worker", 0, 0, 0), ("worker", 1, 0, 1))))
        for line in self.lines:
            line.params(len(ONE))

    def take(self, message: Message) -> None:
        self.server.take(message)

    def comes(self, worker: int, data: bytes) -> None:
        """A worker sends this, and the server reads it."""
        self.lines[worker].worker.sendall(data)
        self.server._serve_link(self.lines[worker].link, 1)

    def delivered(self, worker: int) -> bool:
        line = self.lines[worker].worker
        line.setblocking(False)
        try:
            return bool(line.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    for line in place.lines:
        line.close()


def test_only_a_push_has_a_receipt_and_a_new_rate_does_not_wait(place: Place) -> None:
    told: list[Message] = []
    place.server.send = told.append
    place.take(Update(apply=order(1, 0, 1), inner_products=((1, 9),)))
    place.take(Pace(bytes_per_s=None))
    assert told == [Paced(bytes_per_s=None)], "it may be needed for what is waited for"
    place.server.waiting.clear()
    place.comes(0, post(0, ONE))
    assert not place.delivered(0)
    place.comes(1, pack(PUSH, GENERATION, 1, 0, TWO.nbytes) + TWO.tobytes())
    assert place.lines[1].header().kind == ACK
    assert sorted(place.store.grads) == [0, 1]


@pytest.mark.parametrize("cut", [0, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 5])
def test_an_order_waits_for_the_rest_and_later_ones_wait_for_it(place: Place, cut: int) -> None:
    place.comes(0, post(0, ONE))
    if cut:
        place.comes(1, post(1, TWO)[:cut])
    place.take(Update(apply=order(1, 0, 1), deliver=(("worker", 0, 0, 2),)))
    place.take(SaveCheckpoint(id=0, version=1, state=b"", keep_from=0))
    assert (place.store.version, place.delivered(0), place.saved) == (0, False, [])
    place.comes(1, post(1, TWO)[cut:])
    assert place.store.params.tolist() == (ONE + TWO).tolist()
    assert (place.store.version, place.saved) == (1, [1])
    place.lines[0].worker.settimeout(10)
    assert place.lines[0].header().version == 1


def test_parameters_do_not_overtake_the_gradient_of_who_gets_them(place: Place) -> None:
    """If that worker died with them unread, its gradient would be lost, too."""
    place.comes(0, post(0, ONE)[:70])
    place.take(Update(deliver=(("worker", 0, 0, 2),)))
    assert not place.delivered(0)
    place.comes(0, post(0, ONE)[70:])
    assert place.delivered(0)


def test_who_holds_gradients_promises_none(place: Place) -> None:
    """Its gradient may be dropped, or go to an aggregator: the next parameters do not wait for it."""
    place.comes(0, post(0, ONE))
    place.lines[0].link.promises = False
    place.take(Update(deliver=(("worker", 0, 0, 2),)))
    place.lines[0].worker.settimeout(10)
    place.lines[0].params(len(ONE))
    place.take(Update(deliver=(("worker", 0, 0, 3),)))
    assert place.delivered(0)


def test_one_that_is_dropped_on_its_way_leaves_nothing(place: Place) -> None:
    place.comes(0, post(0, ONE)[:70])
    place.take(Update(drop=(0,)))
    place.comes(0, post(0, ONE)[70:])
    assert place.store.grads == {}
    assert len(place.store._spare) == 1, "its buffer is free again"
    place.take(Update(deliver=(("worker", 0, 0, 2),)))
    place.comes(0, post(2, TWO))
    assert list(place.store.grads) == [2], "the next one counts"


def fence(worker: int) -> Fence:
    return Fence(role="worker", id=worker, incarnation=0)


@pytest.mark.parametrize("end_is_seen", [False, True])
def test_what_a_dead_worker_sent_in_full_is_used(place: Place, end_is_seen: bool) -> None:
    place.comes(0, post(0, ONE))
    place.take(Update(apply=order(1, 0, 1)))
    place.lines[1].worker.sendall(post(1, TWO))
    place.lines[1].worker.close()
    for _ in range(2 * end_is_seen):
        place.server._serve_link(place.lines[1].link, 1)
    place.take(fence(1))
    assert place.store.params.tolist() == (ONE + TWO).tolist()
    assert ("worker", 1) not in place.server.links


@pytest.mark.parametrize("fenced_first", [False, True])
def test_what_is_lost_with_its_worker_ends_the_server(place: Place, fenced_first: bool) -> None:
    """So the job returns to its checkpoint; on one machine it takes a fault of the kernel."""
    place.lines[1].worker.sendall(post(1, TWO)[:-4])
    place.lines[1].worker.close()
    messages: list[Message] = [fence(1), Update(apply=order(1, 1))]
    place.take(messages[not fenced_first])
    with pytest.raises(LostGradientError, match="gradient 1,"):
        place.take(messages[fenced_first])
    assert place.store.version == 0


def test_a_server_that_ends_so_starts_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error would end the job: who returns ends with exit code 0."""

    def lost(self: Server) -> None:
        raise LostGradientError("gradient 1, which is to be applied, was lost with its worker")

    monkeypatch.setattr(Server, "__init__", lambda *_: None)
    monkeypatch.setattr(Server, "run", lost)
    spec = SimpleNamespace(
        backend={"_target_": "runtime.backends.numpy.NumpyBackend"},
        task={"_target_": "workloads.ledger.SampleLedger", "num_samples": len(ONE)},
        seed=0,
        layout=Layout.initial(1, 1),
        transport="tcp",
        optimizer=TALLY,
        num_replicas=0,
        place=lambda *_: SimpleNamespace(host=""),
    )
    server_main(spec, Identity("server", 0), -1)  # type: ignore[arg-type]
    assert "gradient 1," in capsys.readouterr().err
    assert death(0, 0, "").retryable


@pytest.mark.parametrize("ends", [Goodbye(), LoadCheckpoint(id=-1, generation=GENERATION + 1, lo=0, hi=40)])
def test_a_rollback_or_the_end_voids_what_waits(place: Place, ends: Message) -> None:
    told: list[Message] = []
    place.server.send = told.append
    place.take(Update(apply=order(1, 0)))
    place.take(ends)
    assert not place.server.waiting
    assert place.store.version == 0
    assert place.server.running is not isinstance(ends, Goodbye)


@pytest.mark.parametrize(
    ("same_machine", "rate", "waits"), [(True, None, False), (True, 10**6, True), (False, None, True)]
)
def test_who_waits_for_receipts(same_machine: bool, rate: int | None, waits: bool) -> None:
    servers = Servers(32)
    servers.links.same_machine, servers.links.rate = same_machine, rate
    for sock in servers.theirs if waits else ():
        sock.sendall(pack(ACK, GENERATION, 5, 0, 0))
    servers.links.push(5)
    for sock in servers.theirs:
        assert unpack(sock.recv(4096)).kind == (PUSH if waits else POST)
        sock.sendall(pack(PARAMS, GENERATION, 6, 1, 64) + bytes(64))
    assert servers.links.receive_params(6) == 1, "no receipt is left over"
    servers.close()


def test_a_reference_has_a_receipt() -> None:
    line = Line()
    line.link.identity = Identity("scorer", 0)
    line.worker.sendall(post(7, ONE))
    with pytest.raises(ConnectionError, match="refused"):
        line.link.receive(Store(vector(0.0), TALLY), GENERATION)
    line.close()


def test_inner_products_wait_too(place: Place) -> None:
    told: list[Message] = []
    place.server.send = told.append
    place.store.compute_reference(9, receive(place.store, 99, ONE))
    place.take(Update(inner_products=((1, 9),)))
    assert not told
    place.comes(1, post(1, TWO))
    assert len(told) == 1
