"""A sum over ranks as a schedule of transfers, and the proof that it is one (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from runtime.core.vectors import PARAMETER_BYTES, server_range


class Transfer(NamedTuple):
    """One message. Parts [lo, hi) of the vector go from one rank to another, as they were before this round."""

    source: int
    target: int
    lo: int
    hi: int
    adds: bool
    """Whether the target adds them to its own; else they replace its own."""


Round = Sequence[Transfer]


class Schedule(msgspec.Struct, frozen=True):
    """Transfers that leave every rank with the sum over all ranks.

    A rank takes its rounds in order: it sends when it has sent its earlier messages and has added or stored all that it
    receives in earlier rounds. Nobody waits for a round of which it is no part, so ranks that have nothing to exchange
    with a late one begin without it. A message also waits for its target, which receives one at a time, unless messages
    are ``buffered``.
    """

    ranks: int
    blocks: int
    """The vector is cut into so many blocks ..."""
    parts: int
    """... and every block into so many parts, which are numbered through."""
    rounds: tuple[tuple[Transfer, ...], ...]
    late: int | None = None
    """The rank that may join late."""
    buffered: bool = False
    """Whether a message may leave before its target is there or has received its earlier ones."""

    def part_bytes(self, num_parameters: int) -> list[int]:
        """Bytes of every part of a vector of so many parameters."""
        sizes = []
        for block in range(self.blocks):
            lo, hi = server_range(num_parameters, self.blocks, block)
            ends = [server_range(hi - lo, self.parts, part) for part in range(self.parts)]
            sizes += [PARAMETER_BYTES * (end - begin) for begin, end in ends]
        return sizes

    @property
    def sent_frac(self) -> float:
        """Bytes that a rank sends, on average, relative to the whole vector."""
        parts = sum(one.hi - one.lo for transfers in self.rounds for one in transfers)
        return parts / (self.blocks * self.parts * self.ranks)

    def wrong(self) -> str | None:
        """Why this is no sum over all ranks, in which every rank's share counts once; None if it is one.

        The schedule is executed on sets: a part that a rank holds is the set of the ranks whose shares are in it.
        """
        count, every = self.blocks * self.parts, frozenset(range(self.ranks))
        held = [[frozenset((rank,))] * count for rank in range(self.ranks)]
        for number, transfers in enumerate(self.rounds):
            sent = [held[one.source][one.lo : one.hi] for one in transfers]
            for one, shares in zip(transfers, sent, strict=True):
                if one.source == one.target:
                    return f"round {number}: rank {one.source} sends to itself"
                for part, share in enumerate(shares, start=one.lo):
                    own = held[one.target][part]
                    if one.adds and own & share:
                        twice = min(own & share)
                        return f"round {number}: rank {one.target} adds the share of rank {twice} to part {part} twice"
                    held[one.target][part] = own | share if one.adds else share
        for rank, parts in enumerate(held):
            for part, share in enumerate(parts):
                if share != every:
                    return f"at the end part {part} of rank {rank} lacks the share of rank {min(every - share)}"
        return None


def pipelined(schedule: Schedule, blocks: int) -> Schedule:
    """The same for each of so many blocks of the vector, each a round behind the one before."""
    if blocks == 1:
        return schedule
    parts, length = schedule.parts, len(schedule.rounds) + blocks - 1 if schedule.rounds else 0
    rounds = tuple(tuple(_of_round(schedule, number, blocks)) for number in range(length))
    return Schedule(schedule.ranks, blocks, parts, rounds, schedule.late, schedule.buffered)


def _of_round(schedule: Schedule, number: int, blocks: int) -> Iterator[Transfer]:
    for block in range(blocks):
        if 0 <= number - block < len(schedule.rounds):
            first = block * schedule.parts
            for one in schedule.rounds[number - block]:
                yield one._replace(lo=first + one.lo, hi=first + one.hi)


class Message(NamedTuple):
    """One that a rank sends."""

    target: int
    place: int
    """The number of this message among those that it receives."""
    num_bytes: int
    needs: int
    """It leaves when so many received messages are added or stored."""


class Turns(NamedTuple):
    """The messages of one rank, in its order."""

    sends: tuple[Message, ...]
    receives: tuple[tuple[int, int], ...]
    """The source and the bytes of those that it receives."""


def turns_of(schedule: Schedule, num_parameters: int) -> list[Turns]:
    """The messages that every rank sends and receives."""
    ends = [0]
    for size in schedule.part_bytes(num_parameters):
        ends.append(ends[-1] + size)
    sends: list[list[Message]] = [[] for _ in range(schedule.ranks)]
    receives: list[list[tuple[int, int]]] = [[] for _ in range(schedule.ranks)]
    for transfers in schedule.rounds:
        needs = [len(own) for own in receives]
        for source, target, lo, hi, _ in transfers:
            num_bytes = ends[hi] - ends[lo]
            sends[source].append(Message(target, len(receives[target]), num_bytes, needs[source]))
            receives[target].append((source, num_bytes))
    return [Turns(tuple(out), tuple(back)) for out, back in zip(sends, receives, strict=True)]
