"""The ring: its plan on paper, and real rings, and sums by other schedules, of threads over loopback."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.collectives.known import MODELLED, SCHEDULES
from runtime.core.vectors import FloatVector, aligned_vector
from runtime.live.tasks.collectives.bounded import Bounded
from runtime.live.tasks.collectives.ring import BLOCK_FLOATS, Ring, steps
from runtime.live.tasks.collectives.scheduled import Scheduled
from runtime.live.transport.acceptor import Acceptor
from runtime.live.transport.address import Address, listen
from runtime.live.transport.auth import Greeting, Identity, call
from runtime.live.transport.messages import Peer

SECRET = bytes(32)
DEADLINE_S = 60.0


@given(size=st.integers(1, 12))
def test_every_part_ends_as_the_sum_of_all_everywhere_added_in_ring_order(size: int) -> None:
    """Parts are strings of the ranks that are in them, so that the order shows."""
    parts = [[f" {rank}" for _ in range(size)] for rank in range(size)]
    plans = [list(steps(size, rank)) for rank in range(size)]
    for turn in range(2 * (size - 1)):
        sent = [parts[rank][plans[rank][turn].sends] for rank in range(size)]
        for rank in range(size):
            step, came = plans[rank][turn], sent[rank - 1]
            parts[rank][step.receives] = came + parts[rank][step.receives] if step.adds else came
    wanted = ["".join(f" {(part + turn) % size}" for turn in range(size)) for part in range(size)]
    assert all(held == wanted for held in parts)


class Rank:
    """One member with its door."""

    def __init__(
        self, worker: int, incarnation: int = 0, collective: str = "ring", bound_s: float | None = None
    ) -> None:
        self.door, self.address = listen("tcp")
        self.look: Callable[[], None] = lambda: None
        me = Identity("worker", worker, incarnation)
        self.acceptor = Acceptor(SECRET, [self.door])
        more = me, SECRET, self.acceptor, lambda: self.look()
        if bound_s is not None:
            self.ring: Ring = Bounded(bound_s, *more)
        else:
            self.ring = Ring(*more) if collective == "ring" else Scheduled(collective, *more)
        self.peer = Peer(worker, incarnation, self.address)


@pytest.fixture
def make() -> Iterator[Callable[..., Rank]]:
    made: list[Rank] = []

    def one(worker: int, incarnation: int = 0, collective: str = "ring") -> Rank:
        made.append(Rank(worker, incarnation, collective))
        return made[-1]

    yield one
    for rank in made:
        rank.ring.close()
        rank.acceptor.close()


def form(ranks: Sequence[Rank], generation: int = 0) -> None:
    for rank in ranks:
        rank.ring.form(generation, [one.peer for one in ranks])


def reduce(ranks: Sequence[Rank], vectors: Sequence[FloatVector]) -> list[Any]:
    """What each all-reduce raised, if it did."""
    raised: list[Any] = [None] * len(ranks)

    def one(index: int) -> None:
        try:
            ranks[index].ring.all_reduce(vectors[index])
        except OSError as error:
            raised[index] = error
            ranks[index].ring.close()

    threads = [threading.Thread(target=one, args=(index,)) for index in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "an all-reduce hangs"
    return raised


def check_sum(ranks: Sequence[Rank], size: int = 100, seed: int = 0) -> None:
    """Everybody ends with the exact sum of what all have given."""
    vectors = vectors_for(len(ranks), size, seed)
    wanted = np.sum(vectors, axis=0)
    assert reduce(ranks, vectors) == [None] * len(ranks)
    assert all(np.array_equal(vector, wanted) for vector in vectors)


def vectors_for(count: int, size: int, seed: int = 0) -> list[FloatVector]:
    """Whole numbers, so that sums are exact in any order."""
    random = np.random.default_rng(seed)
    vectors = [aligned_vector(size) for _ in range(count)]
    for vector in vectors:
        vector[:] = random.integers(-1000, 1000, size)
    return vectors


@pytest.mark.parametrize(("count", "size"), [(1, 5), (2, 1), (5, 17), (3, 7 * BLOCK_FLOATS + 3)])
def test_everybody_has_the_sum(make: Callable[..., Rank], count: int, size: int) -> None:
    """Also where parts are empty, do not divide, or are larger than what sockets hold."""
    ranks = [make(worker) for worker in range(count)]
    form(ranks)
    for turn in range(2):
        check_sum(ranks, size, turn)


def test_a_newcomer_takes_its_place_and_who_closes_breaks_the_ring_for_all(make: Callable[..., Rank]) -> None:
    """0 and 2 keep what connects them to others; only the newcomer's connections are new."""
    old = [make(0), make(2)]
    form(old)
    check_sum(old)
    ranks = [old[0], make(1, incarnation=3), old[1]]
    form(ranks)
    check_sum(ranks)
    ranks = [make(worker) for worker in range(4)]
    form(ranks)
    check_sum(ranks)
    ranks[1].ring.close()
    left = [ranks[0], *ranks[2:]]
    raised = reduce(left, vectors_for(3, 100))
    assert all(isinstance(error, OSError) for error in raised), raised
    for rank in left:
        rank.acceptor.forget_before(1)
    form(left, generation=1)
    check_sum(left)


class Halted(ConnectionError):
    """What a look raises."""


@pytest.mark.parametrize("connected", [False, True])
def test_who_waits_for_a_neighbour_looks_around(make: Callable[..., Rank], connected: bool) -> None:
    """0 waits for the call of 1, or for its part of a step; what its look raises ends the wait."""
    ranks = [make(0), make(1)]
    form(ranks)
    if connected:
        check_sum(ranks)

    def halt() -> None:
        raise Halted("now")

    ranks[0].look = halt
    (raised,) = reduce(ranks[:1], vectors_for(1, 100))
    assert isinstance(raised, Halted)


def dial(address: Address) -> socket.socket:
    sock = socket.create_connection((address.host, address.port), DEADLINE_S)
    sock.settimeout(DEADLINE_S)
    return sock


def test_only_the_caller_that_is_wanted_is_taken_and_strangers_are_turned_away(make: Callable[..., Rank]) -> None:
    rank = make(0)
    wanted = Identity("worker", 1, 2, 3)
    socks = [dial(rank.address) for _ in range(2)]
    for sock, identity in zip(socks, (Identity("worker", 1, 1, 3), wanted), strict=True):
        call(sock, SECRET, identity)
    with rank.acceptor.take(wanted, lambda: None, DEADLINE_S) as taken:
        taken.sendall(b"x")
        assert socks[1].recv(1) == b"x"
    with pytest.raises(ConnectionError, match="does not connect"):
        rank.acceptor.take(wanted, lambda: None, 0.0)
    for sock in socks:
        sock.close()
    rank = make(0)
    with dial(rank.address) as sock, pytest.raises(ConnectionError):
        call(sock, os.urandom(32), Identity("worker", 1))
    with dial(rank.address) as sock:  # noise instead of a proof
        sock.recv(32, socket.MSG_WAITALL)
        sock.sendall(os.urandom(128))
        with suppress(ConnectionResetError):
            assert sock.recv(1) == b""


@pytest.mark.parametrize(
    "identity", [Identity("worker", 1, 0, 4), Identity("agent", 0, 0, 5), Identity("server", 0, 0, 5)]
)
def test_who_is_of_an_old_generation_or_no_guest_is_turned_away(make: Callable[..., Rank], identity: Identity) -> None:
    rank = make(0)
    rank.acceptor.forget_before(5)
    with dial(rank.address) as sock, pytest.raises(ConnectionError):
        call(sock, SECRET, identity)


def test_a_generation_that_ends_while_a_caller_is_answered_takes_it_along(
    make: Callable[..., Rank], monkeypatch: pytest.MonkeyPatch
) -> None:
    rank, welcome = make(0), Greeting.welcome

    def interrupted(greeting: Greeting) -> None:
        welcome(greeting)
        rank.acceptor.forget_before(5)

    monkeypatch.setattr(Greeting, "welcome", interrupted)
    with dial(rank.address) as sock:
        call(sock, SECRET, Identity("worker", 1, 0, 4))
        with suppress(ConnectionResetError):
            assert sock.recv(1) == b""


def reduce_groups(ranks: Sequence[Rank], groups: Sequence[tuple[int, ...]], seed: int) -> None:
    """All ranks sum once around, each in its group, at the same time."""
    vectors, raised = vectors_for(len(ranks), 3 * BLOCK_FLOATS + 1, seed), list[OSError]()
    wanted = {worker: np.sum([vectors[one] for one in group], axis=0) for group in groups for worker in group}

    def one(worker: int, group: tuple[int, ...]) -> None:
        try:
            ranks[worker].ring.all_reduce(vectors[worker], group)
        except OSError as error:
            raised.append(error)

    threads = [threading.Thread(target=one, args=(worker, group)) for group in groups for worker in group]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "a sum hangs"
    assert raised == []
    assert all(np.array_equal(vectors[worker], total) for worker, total in wanted.items())


def test_groups_sum_at_the_same_time_and_change_between_sums(make: Callable[..., Rank]) -> None:
    """0 sums with others while 1 idles, then with 1 again: their connection has waited. All may sum in between."""
    ranks = [make(worker) for worker in range(5)]
    form(ranks)
    for seed, groups in enumerate([[(0, 1), (2, 3, 4)], [(0, 2)], [(0, 1), (3, 4)], [(0, 1, 4)], [(1, 2), (0, 3)]]):
        reduce_groups(ranks, groups, seed)
        check_sum(ranks, seed=seed)


@pytest.mark.parametrize("size", [1, 100, 3 * BLOCK_FLOATS + 1])
def test_a_vector_goes_one_way_from_member_to_member(make: Callable[..., Rank], size: int) -> None:
    """The first of three sends; the second receives, and sends that on."""
    ranks = [make(worker) for worker in range(3)]
    form(ranks)
    vectors = vectors_for(3, size)
    first = vectors[0].copy()

    def carry(rank: Rank, vector: FloatVector) -> None:
        for source in range(2):
            if rank.peer.worker in (source, source + 1):
                rank.ring.pass_on(vector, source, source + 1)

    threads = [threading.Thread(target=carry, args=pair) for pair in zip(ranks, vectors, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert all(np.array_equal(vector, first) for vector in vectors)


def test_who_is_apart_is_left_out_and_may_come_back(make: Callable[..., Rank]) -> None:
    """It closes its connections when it leaves: its neighbours have opened others by the time of its return."""
    ranks = [make(worker) for worker in range(4)]
    form(ranks)
    check_sum(ranks)
    for apart in ((2,), (), (0, 1), ()):
        for rank in ranks:
            rank.ring.excluded = apart
            if rank.peer.worker in apart:
                rank.ring.close()
        members = [rank for rank in ranks if rank.peer.worker not in apart]
        check_sum(members, seed=len(apart))


def test_who_was_waiting_is_turned_away_when_its_generation_is_over(make: Callable[..., Rank]) -> None:
    rank = make(0)
    with dial(rank.address) as sock:
        call(sock, SECRET, Identity("worker", 1, 0, 4))
        rank.acceptor.forget_before(5)
        with suppress(ConnectionResetError):
            assert sock.recv(1) == b""


OTHERS = sorted(SCHEDULES.keys() - MODELLED - {"ring"})


@pytest.mark.parametrize(("count", "size"), [(2, 1), (4, 17), (5, 3 * BLOCK_FLOATS + 3), (8, 100)])
@pytest.mark.parametrize("collective", OTHERS)
def test_by_other_schedules_everybody_has_the_sum(
    make: Callable[..., Rank], collective: str, count: int, size: int
) -> None:
    """Of five there is no halving and doubling, but a ring. Of fractions all have the same rounded sum."""
    ranks = [make(worker, collective=collective) for worker in range(count)]
    form(ranks)
    for turn in range(2):
        check_sum(ranks, size, turn)
    vectors = [vector / np.float32(7) for vector in vectors_for(count, size, 5)]
    wanted = np.sum(vectors, axis=0, dtype=np.float64)
    assert reduce(ranks, vectors) == [None] * count
    assert {vector.tobytes() for vector in vectors} == {vectors[0].tobytes()}
    np.testing.assert_allclose(vectors[0], wanted, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("collective", OTHERS)
def test_who_closes_breaks_other_sums_for_all_and_the_others_go_on(make: Callable[..., Rank], collective: str) -> None:
    ranks = [make(worker, collective=collective) for worker in range(4)]
    form(ranks)
    check_sum(ranks)
    ranks[1].ring.close()
    left = [ranks[0], *ranks[2:]]
    raised = reduce(left, vectors_for(3, 100))
    assert all(isinstance(error, OSError) for error in raised), raised
    for rank in left:
        rank.acceptor.forget_before(1)
    form(left, generation=1)
    check_sum(left)
