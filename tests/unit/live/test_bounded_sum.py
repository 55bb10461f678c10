"""Transposed sums that end in time, of threads over loopback: what is late is lost as a whole, and nothing else."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from runtime.core.collectives.known import schedule_of
from runtime.core.vectors import PARAMETER_BYTES, FloatVector, server_range
from runtime.live.tasks.collectives.bounded import Bounded
from runtime.live.tasks.collectives.ring import BLOCK_FLOATS
from runtime.live.transport.messages import Late
from tests.unit.live.test_ring import Halted, Rank, form, reduce, vectors_for

AMPLE_S, SHORT_S = 600.0, 1.2
Make = Callable[..., list[Rank]]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Rank] = []

    def ranks(count: int, bound_s: float | None = AMPLE_S) -> list[Rank]:
        new = [Rank(worker, collective="transpose", bound_s=bound_s) for worker in range(count)]
        made.extend(new)
        form(new)
        return new

    yield ranks
    for rank in made:
        rank.ring.close()
        rank.acceptor.close()


def bounded(rank: Rank) -> Bounded:
    assert isinstance(rank.ring, Bounded)
    return rank.ring


def sum_up(ranks: Sequence[Rank], vectors: Sequence[FloatVector], number: int, bound_s: float) -> list[Late | None]:
    """The ranks sum; returns what each has lost."""
    for rank in ranks:
        bounded(rank).number, bounded(rank).bound_s = number, bound_s
    assert reduce(ranks, vectors) == [None] * len(ranks)
    return [bounded(rank).late() for rank in ranks]


def without(vectors: Sequence[FloatVector], absent: int) -> list[FloatVector]:
    """What the others have after a sum in which nothing of one rank has come, transfer by transfer."""
    schedule, held = schedule_of("transpose", len(vectors)), [vector.copy() for vector in vectors]
    for transfers in schedule.rounds:
        sent = [held[one.source].copy() for one in transfers]
        for one, values in zip(transfers, sent, strict=True):
            lo, hi = server_range(len(values), schedule.parts, one.lo)
            if one.source != absent:
                held[one.target][lo:hi] = values[lo:hi] + (held[one.target][lo:hi] if one.adds else 0)
    return held


@pytest.mark.parametrize(("count", "size"), [(1, 5), (2, 1), (4, 17), (5, 3 * BLOCK_FLOATS + 3)])
def test_with_time_it_is_the_sum_without_a_bound_to_the_bit(make: Make, count: int, size: int) -> None:
    ranks, free = make(count), make(count, None)
    for turn in range(3):
        vectors = [vector / np.float32(7) for vector in vectors_for(count, size, turn)]
        wanted = [vector.copy() for vector in vectors]
        assert reduce(free, wanted) == [None] * count
        assert sum_up(ranks, vectors, turn, AMPLE_S) == [None] * count
        assert [vector.tobytes() for vector in vectors] == [vector.tobytes() for vector in wanted]


def test_what_a_member_does_not_send_is_lost_and_is_thrown_away_when_it_comes(make: Make) -> None:
    """Rank 3 comes when the others have ended: each lacks a message of both ways. What they sent waits for it."""
    ranks, size = make(4), 100
    sum_up(ranks, vectors_for(4, size), 0, AMPLE_S)
    vectors = vectors_for(4, size, 1)
    wanted, all_of_it = without(vectors, 3), np.sum(vectors, axis=0)
    ranges = [server_range(size, 4, part) for part in range(4)]
    part_bytes = [PARAMETER_BYTES * (hi - lo) for lo, hi in ranges]
    own = slice(*ranges[3])
    lost = sum_up(ranks[:3], vectors[:3], 1, SHORT_S)
    for rank, late in enumerate(lost):
        assert late == Late(lost_bytes=part_bytes[rank] + part_bytes[3], sum_bytes=2 * 3 * PARAMETER_BYTES * size)
        assert np.array_equal(vectors[rank], wanted[rank])
    assert sum_up(ranks[3:], vectors[3:], 1, AMPLE_S) == [None]
    assert np.array_equal(vectors[3][own], all_of_it[own])
    assert np.array_equal(vectors[3], wanted[3])
    check_whole(ranks, size, 2)


def check_whole(ranks: Sequence[Rank], size: int, number: int) -> None:
    """With time, nothing is lost, and everybody has the exact sum."""
    vectors = vectors_for(len(ranks), size, number)
    wanted = np.sum(vectors, axis=0)
    assert sum_up(ranks, vectors, number, AMPLE_S) == [None] * len(ranks)
    assert all(np.array_equal(vector, wanted) for vector in vectors)


@pytest.mark.long(like="test_what_a_member_does_not_send_is_lost_and_is_thrown_away_when_it_comes")
def test_a_message_that_has_begun_to_leave_leaves_whole_and_delays_the_next(make: Make) -> None:
    """Parts of 4 MiB are more than connections hold: rank 2 has missed a sum, and half a message of each other rank
    is on its way to it. In the next sum the rest comes first, and is thrown away."""
    ranks, size = make(3), 3 << 20
    sum_up(ranks, vectors_for(3, 3), 0, AMPLE_S)
    for end in (end for rank in ranks for end in bounded(rank)._ends.values()):
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, 1 << 16)
    vectors = vectors_for(3, size, 1)
    lost = sum_up(ranks[:2], vectors[:2], 1, 2 * SHORT_S)
    assert all(late is not None and late.lost_bytes == 2 * PARAMETER_BYTES * size // 3 for late in lost)
    assert [len(out.messages) for rank in ranks[:2] for out in bounded(rank)._outs.values()] == [0, 1, 0, 1]
    check_whole(ranks, size, 2)
    assert not any(out.messages for rank in ranks for out in bounded(rank)._outs.values())


def test_time_that_is_over_before_it_begins_loses_all_that_is_not_here(make: Make) -> None:
    """Nothing is sent then, and every member keeps what it has."""
    ranks = make(3)
    check_whole(ranks, 90, 0)
    vectors = vectors_for(3, 90, 1)
    kept = [vector.copy() for vector in vectors]
    lost = sum_up(ranks, vectors, 1, 0.0)
    assert sum(0 if late is None else late.lost_bytes for late in lost) == 2 * 2 * PARAMETER_BYTES * 90
    assert all(np.array_equal(vector, own) for vector, own in zip(vectors, kept, strict=True))
    check_whole(ranks, 90, 2)


def test_who_closes_breaks_the_sum_for_all_and_the_others_go_on(make: Make) -> None:
    ranks = make(4)
    check_whole(ranks, 100, 0)
    ranks[1].ring.close()
    left = [ranks[0], *ranks[2:]]
    raised = reduce(left, vectors_for(3, 100))
    assert all(isinstance(error, OSError) for error in raised), raised
    for rank in left:
        rank.acceptor.forget_before(1)
    form(left, generation=1)
    check_whole(left, 100, 1)


def test_who_waits_looks_around(make: Make) -> None:
    """What the look raises ends the wait for a message."""
    ranks = make(2)
    check_whole(ranks, 100, 0)

    def halt() -> None:
        raise Halted("now")

    ranks[0].look = halt
    (raised,) = reduce(ranks[:1], vectors_for(1, 100))
    assert isinstance(raised, Halted)


def test_a_part_of_another_size_is_refused(make: Make) -> None:
    """Members that disagree about the vector would store parts in wrong places."""
    ranks = make(2)
    check_whole(ranks, 100, 0)
    raised = reduce(ranks, [*vectors_for(1, 100), *vectors_for(1, 200)])
    assert any("refused" in str(error) for error in raised), raised
