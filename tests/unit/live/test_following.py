"""A replica of the server: when it makes updates, what it says, what it forgets. No process, and no copy on its way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from runtime.live.tasks.following import Copy, Following, HandingOver
from runtime.live.tasks.store import Store
from runtime.live.transport import buffers
from runtime.live.transport.address import Address
from runtime.live.transport.auth import Identity
from runtime.live.transport.frames import PARAMS
from runtime.live.transport.messages import (
    Divergence,
    Follow,
    Followed,
    LoadCheckpoint,
    Loaded,
    Message,
    SendState,
    Update,
)
from runtime.live.transport.shared_parameters import FOLLOWS, HOLDS, NEITHER, SharedParameters
from tests.unit.live.test_datalink import GENERATION, Line, bare_server
from tests.unit.live.test_store import TALLY, order, receive, vector

MOMENTUM = {"name": "sgd", "lr": 0.5, "momentum": 0.5}


class Replica:
    """One that follows, in the place of a process."""

    def __init__(self, optimizer: dict[str, Any] = TALLY) -> None:
        self.said: list[Message] = []
        self.store = Store(vector(0.0), optimizer)
        self.server: Any = bare_server(self.store)
        self.server.send = self.said.append
        self.server.following = Following(bytes(32), Identity("server", 1))
        self.server.following.fetch = lambda num_floats: None
        self.server.take(Follow(generation=GENERATION, version=0))

    def comes(self, grad_id: int, value: float = 1.0) -> None:
        receive(self.store, grad_id, vector(value))
        self.server.look()

    def update(self, version: int, *grads: int, drop: tuple[int, ...] = ()) -> None:
        self.server.take(Update(drop=drop, apply=order(version, *grads) if grads else None))

    def copied(self, version: int, *values: float, generation: int = GENERATION, steps: int = 0) -> None:
        """The thread has it."""
        copy = Copy(version, steps, generation, np.concatenate([vector(value) for value in values]))
        self.server.following._done.put(copy)
        os.write(self.server.following._wake, b"\0")
        self.server._on_copied()

    def wants_copy(self, version: int, generation: int = GENERATION, overtaken: tuple[int, ...] = ()) -> None:
        server = Address(transport="tcp", host="127.0.0.1", port=1)
        self.server.take(Follow(generation=generation, version=version, source=server, overtaken=overtaken))

    @property
    def followed(self) -> list[tuple[int, int | None]]:
        return [(one.version, one.grad_id) for one in self.said if isinstance(one, Followed)]


@pytest.fixture
def replica() -> Replica:
    return Replica()


def test_it_makes_updates_in_their_order_each_when_its_gradients_are_here(replica: Replica) -> None:
    replica.update(1, 10)
    replica.update(2, 11, 12)
    assert replica.store.version == 0
    replica.comes(11, 4.0)
    assert replica.store.version == 0
    replica.comes(10, 2.0)
    assert replica.store.version == 1
    replica.comes(12, 1.0)
    assert replica.store.params.tolist() == vector(7.0).tolist()
    assert replica.followed == [(0, 11), (1, 10), (2, 12)]
    assert replica.store.grads == {}


@pytest.mark.parametrize("first", ["drop", "gradient"])
def test_what_is_dropped_is_forgotten_also_if_it_comes_later(replica: Replica, first: str) -> None:
    if first == "gradient":
        replica.comes(10)
    replica.update(0, drop=(10,))
    if first == "drop":
        replica.comes(10)
    assert replica.store.grads == {}
    assert replica.followed == [(0, 10)]


def test_a_copy_takes_the_place_of_updates_that_it_contains() -> None:
    replica = Replica(MOMENTUM)
    for version in (1, 2, 3):
        replica.update(version, 10 + version)
    replica.comes(12)
    replica.wants_copy(2, overtaken=(11,))
    replica.copied(2, 5.0, 2.0, steps=2)
    assert (replica.store.version, replica.store.optimizer.steps) == (2, 2)
    assert replica.followed[-1] == (2, None)
    replica.comes(11)
    assert replica.store.grads == {}, "what was overtaken is not kept, nor what was here for an update in the copy"
    replica.comes(13, 4.0)
    assert replica.store.params.tolist() == vector(5.0 - 0.5 * (0.5 * 2.0 + 4.0)).tolist()


@pytest.mark.parametrize("wrong", [{"version": 1}, {"version": 2, "generation": GENERATION + 1}])
def test_a_copy_that_nobody_wants_any_more_is_discarded(replica: Replica, wrong: dict[str, int]) -> None:
    replica.wants_copy(2)
    replica.copied(wrong.pop("version"), 7.0, **wrong)
    assert (replica.store.version, replica.followed) == (0, [])


def test_in_another_generation_nothing_counts_before_the_copy_is_here(replica: Replica) -> None:
    replica.comes(11)
    replica.update(1, 12)
    replica.wants_copy(0, generation=GENERATION + 1)
    assert (replica.store.grads, list(replica.server.waiting)) == ({}, [])
    replica.update(1, 13)
    replica.comes(13)
    assert replica.store.version == 0
    replica.copied(0, 3.0, generation=GENERATION + 1)
    assert replica.store.params.tolist() == vector(4.0).tolist()


def test_it_becomes_the_server_at_its_version(replica: Replica) -> None:
    replica.comes(11, 2.0)
    replica.update(1, 11)
    replica.update(2, 12)
    replica.comes(13)
    replica.server.take(LoadCheckpoint(id=-2, generation=GENERATION + 1, lo=0, hi=len(vector(0.0))))
    assert replica.said[-1] == Loaded(id=-2, generation=GENERATION + 1, version=1, state=b"")
    assert replica.store.params.tolist() == vector(2.0).tolist()
    assert (replica.store.grads, list(replica.server.waiting)) == ({}, [])
    receive(replica.store, 20, vector(1.0))
    replica.update(2, 20)
    assert replica.store.version == 2


def test_a_copy_that_is_there_with_the_order_to_take_over_is_nothing(replica: Replica) -> None:
    """It comes from the server that is gone, while the replica still follows, and the order may be read first."""
    replica.update(1, 11)
    replica.wants_copy(1)
    replica.comes(11)
    replica.server.take(LoadCheckpoint(id=-2, generation=GENERATION + 1, lo=0, hi=len(vector(0.0))))
    replica.server._on_copied()
    assert replica.said[-1] == Loaded(id=-2, generation=GENERATION + 1, version=1, state=b"")


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    line.link.identity = Identity("server", 1, 3, GENERATION)
    yield line
    line.close()


@pytest.mark.parametrize("first", ["order", "connection"])
def test_a_copy_goes_out_on_the_connection_that_is_made_for_it(line: Line, first: str) -> None:
    handing_over, copy = HandingOver(), Copy(7, 5, GENERATION, vector(1.0, 2.0))
    order = SendState(server=1, incarnation=3)
    if first == "order":
        assert handing_over.order(order, copy) is None
        handing_over.greeted(line.link)
    else:
        handing_over.greeted(line.link)
        assert handing_over.order(order, copy) is line.link
    header = line.header()
    assert (header.kind, header.version, header.ticket, header.generation) == (PARAMS, 7, 5, GENERATION)
    assert line.read(header.length) == copy.vectors.tobytes()


@pytest.mark.parametrize("first", ["order", "connection"])
def test_another_incarnation_does_not_get_it(line: Line, first: str) -> None:
    handing_over, copy = HandingOver(), Copy(7, 5, GENERATION, vector(1.0))
    order = SendState(server=1, incarnation=4)
    if first == "order":
        handing_over.order(order, copy)
    handing_over.greeted(line.link)
    if first == "connection":
        handing_over.order(order, copy)
    assert not line.link.sending


def test_the_server_hands_over_what_its_last_order_made(line: Line) -> None:
    store = Store(vector(0.0), MOMENTUM)
    server: Any = bare_server(store, links={("server", 1): line.link})
    server.handing_over = HandingOver()
    server.greeted(line.link)
    receive(store, 1, vector(2.0))
    server.take(Update(apply=order(1, 1)))
    server.take(SendState(server=1, incarnation=3))
    assert line.header().version == 1
    assert line.read(store.num_bytes * 2) == vector(-1.0).tobytes() + vector(2.0).tobytes()


def test_a_replica_that_is_gone_before_its_copy_takes_nobody_along(line: Line) -> None:
    store = Store(vector(0.0), MOMENTUM)
    server: Any = bare_server(store, links={("server", 1): line.link})
    server.handing_over = HandingOver()
    server.greeted(line.link)
    line.worker.close()
    server.take(SendState(server=1, incarnation=3))
    receive(store, 1, vector(2.0))
    server.take(Update(apply=order(1, 1)))
    assert store.version == 1


@pytest.fixture
def shared() -> list[SharedParameters]:
    """Of a server at version 7 and its replica at version 5."""
    fd = buffers.create()
    found = [SharedParameters(fd, 4, 2, number) for number in range(2)]
    os.close(fd)
    for shared_parameters, version, role in zip(found, (7, 5), (HOLDS, FOLLOWS), strict=True):
        shared_parameters.begin()
        shared_parameters.params[:] = version
        shared_parameters.end(version, GENERATION, role)
    return found


def test_both_measure_the_same_distance(shared: list[SharedParameters]) -> None:
    divergence = Divergence(server=1, version=5, behind=2, distance=4.0)
    assert [list(shared_parameters.divergence()) for shared_parameters in shared] == [[divergence], [divergence]]


@pytest.mark.parametrize("what", ["changes", "no copy", "another generation", "another process"])
def test_what_cannot_be_compared_is_not(shared: list[SharedParameters], what: str) -> None:
    if what == "changes":
        shared[1].begin()
    elif what == "another process":
        shared[1]._about[1] = 0
    else:
        shared[1].end(5, *((GENERATION, NEITHER) if what == "no copy" else (GENERATION + 1, FOLLOWS)))
    assert list(shared[0].divergence()) == []
