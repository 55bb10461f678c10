"""Which ranks a job that hangs waits for, from the collectives that each rank has begun and not completed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from analysis.logs.flight_recorder import Dump, Group, Operation

Kind = Literal["absent", "late", "stuck", "together", "circle"]


class Culprit(NamedTuple):
    """A rank that others wait for, and that waits for no rank that does not wait for it.

    ``kind``: ``absent`` (it has no dump), ``late`` (it has not begun ``operation``, or does not take a message),
    ``stuck`` (it has begun ``operation``, other ranks have completed it), ``together`` (all ranks have begun
    ``operation``, and no rank has completed it), or ``circle`` (ranks wait for each other). ``waiting``: the ranks that
    wait for it, directly or for ranks that do.
    """

    rank: int
    kind: Kind
    operation: Operation
    group: Group
    waiting: frozenset[int]


def hanging(dumps: Mapping[int, Dump]) -> list[Culprit]:
    """The ranks that hold up the others: every rank waits in its first operation, for the ranks that are not there.

    Args:
        dumps: by rank.
    """
    waits = {rank: _waits_for(rank, dumps) for rank, dump in dumps.items() if dump.waiting}
    found = _ends(waits)
    culprits = []
    for rank in sorted(set().union(*found.values())):
        waiting = frozenset(one for one, ends in found.items() if rank in ends and one != rank)
        kind, operation, group = _about(rank, dumps, waits)
        culprits.append(Culprit(rank, kind, operation, group, waiting))
    return culprits


def _waits_for(rank: int, dumps: Mapping[int, Dump]) -> set[int]:
    """The ranks that have not joined its first operation."""
    first = dumps[rank].waiting[0]
    if first.peer is not None:
        return {first.peer} - {rank}
    return {
        one
        for one in _group(dumps, rank, first).ranks
        if one != rank and (one not in dumps or not _has_joined(dumps[one], first))
    }


def _group(dumps: Mapping[int, Dump], rank: int, operation: Operation) -> Group:
    """The group of a rank's operation; its members are all ranks that have it, if a dump does not say."""
    group = dumps[rank].groups.get(operation.group, Group(operation.group, ()))
    return group if group.ranks else group._replace(ranks=tuple(r for r in dumps if operation.group in dumps[r].groups))


def _has_joined(dump: Dump, operation: Operation) -> bool:
    """Whether it has begun the collective; of an unknown group it has if it waits for anything."""
    joined = dump.joined.get(operation.group)
    return bool(dump.waiting) if joined is None else joined >= operation.number


def _has_completed(dump: Dump, operation: Operation) -> bool:
    return operation.group in dump.joined and not any(
        one.group == operation.group and one.peer is None and one.number <= operation.number for one in dump.waiting
    )


def _ends(waits: Mapping[int, set[int]]) -> dict[int, set[int]]:
    """For each rank the ranks at the ends of all chains of waiting that begin at it; of a circle all its ranks.

    A rank is at an end if every rank that it waits for, directly or not, waits for as many ranks: then all are a
    circle. A rank that waits for a circle is not in it.
    """
    waited_for = {rank: _chain_of_waits(rank, waits) for rank in set(waits).union(*waits.values())}
    ends = {rank for rank, some in waited_for.items() if all(len(waited_for[one]) == len(some) for one in some)}
    return {rank: waited_for[rank] & ends for rank in waits}


def _chain_of_waits(rank: int, waits: Mapping[int, set[int]]) -> set[int]:
    """The rank itself and all ranks that it waits for, directly or not."""
    seen, new = {rank}, {rank}
    while new:
        new = set().union(*(waits.get(one, set()) for one in new)) - seen
        seen |= new
    return seen


def _about(rank: int, dumps: Mapping[int, Dump], waits: Mapping[int, set[int]]) -> tuple[Kind, Operation, Group]:
    """(kind, operation, group) of a rank that holds up others."""
    own = dumps[rank].waiting[0] if rank in dumps and dumps[rank].waiting else None
    if own is not None and waits.get(rank):
        return "circle", own, _group(dumps, rank, own)
    if own is not None and own.peer is None:
        group = _group(dumps, rank, own)
        others = [dumps[one] for one in group.ranks if one in dumps and one != rank]
        return "stuck" if any(_has_completed(one, own) for one in others) else "together", own, group
    waiters = [one for one in sorted(waits) if rank in waits[one]] or [rank]
    first, waiter = min(((dumps[one].waiting[0], one) for one in waiters), key=lambda pair: pair[0].peer is not None)
    return "late" if rank in dumps else "absent", first, _group(dumps, waiter, first)
