"""StragglAR: a sum in which one rank may be late (Devraj et al., Efficient AllReduce with Stragglers, 2025).

The n - 1 early ranks reduce-scatter among each other while the last rank, the straggler, is late. Once it has come, it
completes one of their n - 1 parts in each round, in an exchange with the rank that holds it; meanwhile complete parts
spread. That takes n - 2 + log2 n rounds of 1/(n - 1) of the vector, instead of the 2 (n - 1) of 1/n of a ring.

In round t the straggler and rank t complete part t. Of the other ranks, each holds one part that not all have yet: half
of them the oldest one, part t - log2 n, and the others together all newer ones, each of which twice as many ranks hold
as the next. So a pair of an old and a new holder exchanges both. The old holder then spreads what it got; it
must be an old holder again when the straggler comes to it. Rank r is one in round r if it last got part r - log2 n.
"""

from __future__ import annotations

from collections.abc import Iterator

from runtime.core.collectives.schedule import Schedule, Transfer

NOTHING = -1
"""The part of a rank that holds no complete one."""


def stragglar(size: int) -> Schedule:
    """The schedule among ``size`` ranks, a power of two of at least 2; the last rank is the straggler."""
    return Schedule(size, 1, size - 1, (*_reduce_scatter(size - 1), *_complete(size)), late=size - 1)


def _reduce_scatter(size: int) -> Iterator[tuple[Transfer, ...]]:
    """Around a ring, after which rank r holds the sum of part r."""
    for number in range(size - 1):
        parts = [(rank - number - 1) % size for rank in range(size)]
        yield tuple(Transfer(rank, (rank + 1) % size, part, part + 1, adds=True) for rank, part in enumerate(parts))


def _complete(size: int) -> Iterator[tuple[Transfer, ...]]:
    late, doublings = size - 1, size.bit_length() - 1
    newest = [NOTHING] * size
    """The part that a rank got last, by rank."""
    for now in range(size - 2 + doublings):
        exchanged = []
        with_late = now if now < late else None
        if with_late is not None:
            pair = ((now, late), (late, now))
            exchanged += [Transfer(source, target, now, now + 1, adds=True) for source, target in pair]
        oldest = now - doublings
        free = [rank for rank in range(size) if rank != with_late and (rank != late or with_late is None)]
        pairs = _pairs([rank for rank in free if newest[rank] > oldest and newest[rank] != NOTHING], newest, now, free)
        for new, old in pairs:
            part = newest[new]
            exchanged.append(Transfer(new, old, part, part + 1, adds=False))
            if newest[old] != NOTHING and new != late:
                exchanged.append(Transfer(old, new, oldest, oldest + 1, adds=False))
        for new, old in pairs:
            newest[old] = newest[new]
        if with_late is not None:
            newest[now] = newest[late] = now
        yield tuple(exchanged)


def _pairs(new: list[int], newest: list[int], now: int, free: list[int]) -> list[tuple[int, int]]:
    """Every holder of a new part, and the old holder that gets it.

    The straggler soon comes to the ranks after ``now``: each gets the part with which it is an old holder by then.
    """
    doublings = (len(newest)).bit_length() - 1
    old = [rank for rank in free if rank not in set(new)]
    soon = [rank for rank in old if now < rank < now + doublings]
    pairs = []
    for rank in soon:
        part = rank - doublings
        giver = next((one for one in new if newest[one] == part), None) if part >= 0 else None
        if giver is not None:
            new.remove(giver)
            pairs.append((giver, rank))
    others = [rank for rank in reversed(old) if rank not in set(soon)]
    return [*pairs, *zip(new, others, strict=False)]
