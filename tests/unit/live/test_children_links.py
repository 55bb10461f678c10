"""A child and its parent over loopback: parameters one way, gradients the other, and how either end notices the end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from runtime.core.vectors import FloatVector, aligned_vector
from runtime.live.tasks.children import Children, Exchange, ParentLink
from runtime.live.transport.acceptor import Acceptor
from runtime.live.transport.address import listen
from runtime.live.transport.auth import Identity
from runtime.live.transport.messages import Peer
from tests.support.runs import until

SECRET = bytes(32)
SIZE = 300_000
"""More than sockets hold, so that both ends take turns."""
CHILD = Identity("child", 3, 1, 0)


def nothing() -> None:
    """A wait that nobody interrupts."""


class Parent:
    """A replica's acceptor with its children."""

    def __init__(self, worker: int) -> None:
        door, address = listen("tcp")
        self.acceptor = Acceptor(SECRET, [door])
        self.children, self.peer = Children(self.acceptor), Peer(worker, 0, address)

    def serve(self, ticket: int, child: Identity = CHILD) -> None:
        self.children.serve(Exchange(child, ticket, 7, filled(self.peer.worker)))


def filled(value: float) -> FloatVector:
    vector = aligned_vector(SIZE)
    vector.fill(value)
    return vector


@pytest.fixture
def parents() -> Iterator[list[Parent]]:
    made = [Parent(0), Parent(1)]
    yield made
    for parent in made:
        parent.children.close()
        parent.acceptor.close()


@pytest.fixture
def link() -> Iterator[ParentLink]:
    one = ParentLink(SECRET, nothing)
    yield one
    one.close()


def exchange(link: ParentLink, parent: Parent, ticket: int) -> None:
    parent.serve(ticket)
    link.connect(parent.peer, CHILD)
    params = aligned_vector(SIZE)
    assert link.pull(ticket, params) == 7
    assert set(params.tolist()) == {float(parent.peer.worker)}
    link.push(ticket, filled(ticket))
    arrived = parent.children.arrived()
    assert list(arrived) == [ticket], "what is acknowledged has arrived"
    np.testing.assert_array_equal(arrived[ticket], filled(ticket))
    assert parent.children.arrived() == {}


def test_gradients_go_to_one_parent_then_to_another_and_back(parents: list[Parent], link: ParentLink) -> None:
    for ticket, which in enumerate((0, 0, 1, 0)):
        exchange(link, parents[which], ticket)


def test_a_parent_that_halts_ends_what_its_child_waits_for(parents: list[Parent], link: ParentLink) -> None:
    parent = parents[0]
    exchange(link, parent, 0)
    parent.serve(1)
    link.pull(1, aligned_vector(SIZE))
    parent.children.close()
    with pytest.raises(ConnectionError):
        link.push(1, filled(1))
    assert parent.children.arrived() == {}


def test_a_child_that_is_lost_holds_no_update_up(parents: list[Parent], link: ParentLink) -> None:
    parent = parents[0]
    exchange(link, parent, 0)
    link.close()
    later = Identity("child", 3, 2, 1)
    parent.serve(1, later)
    fresh = ParentLink(SECRET, nothing)
    fresh.connect(parent.peer, later)
    assert fresh.pull(1, aligned_vector(SIZE)) == 7
    fresh.close()
    until(lambda: not any(thread.is_alive() for thread in parent.children._threads), "the end of its threads")


def test_a_gradient_that_nobody_asked_for_is_refused(parents: list[Parent], link: ParentLink) -> None:
    parent = parents[0]
    parent.serve(0)
    link.connect(parent.peer, CHILD)
    link.pull(0, aligned_vector(SIZE))
    with pytest.raises(ConnectionError):
        link.push(1, filled(1))
    assert parent.children.arrived() == {}
