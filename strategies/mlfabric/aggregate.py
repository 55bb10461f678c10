"""Updates that are summed on their way to the server: MLfabric's groups (pure).

Slide 15: neighbours in the order may go to an aggregator first, which sends their sum, so that fewer bytes enter the
server; members of group i are at the aggregator no later than all earlier groups are at the server, so that nobody
waits for an aggregate. A group is one update: members keep their order, and have smaller delays than without groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strategies.mlfabric.fluid import Reservations
from strategies.mlfabric.updates import Links, Update, check


@dataclass(frozen=True, kw_only=True)
class Aggregator:
    """A node that sums vectors: links of its own through which they come in, and those from it to the server."""

    name: str
    inward: tuple[str, ...]
    outward: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Updates that are applied as one.

    Attributes:
        members: in the order of the plan, oldest place first.
        via: name of the aggregator that sums them; ``None``: a single update that goes to the server itself.
        gathered_s: when all are at the aggregator, or when the single one can begin.
        arrived_s: when the server has them.
    """

    members: tuple[Update, ...]
    via: str | None
    gathered_s: float
    arrived_s: float


def group(
    order: Sequence[Update], links: Links, *, now_s: float, server: Sequence[str], aggregators: Sequence[Aggregator]
) -> tuple[Group, ...]:
    """Cut updates into groups, without changing their order (MLfabric, slide 15).

    Each next group is as long as the constraint allows at the aggregator that is free first (ties: the first of
    ``aggregators``), and a single update, sent directly, where fewer than two would be summed.

    Args:
        order: updates in the order in which they are applied, all pending.
        links: capacities of all links that paths and aggregators name.
        now_s: no transfer begins earlier.
        server: links of the updates' paths that a transfer to an aggregator does not pass: the server's own.
        aggregators: nodes that may sum; none: all go directly.
    """
    check(tuple(order), links)
    network = Reservations(links, now_s)
    free_s = [now_s] * len(aggregators)
    delivered_s, at = now_s, 0
    groups: list[Group] = []
    while at < len(order):
        which = min(range(len(aggregators)), key=lambda k: (free_s[k], k), default=None)
        gathering = None
        if which is not None:
            gathering = _gather(order[at:], aggregators[which], set(server), network, (free_s[which], delivered_s))
        if which is None or gathering is None:
            members, via, ready_s, path = order[at : at + 1], None, max(order[at].ready_s, now_s), order[at].path
        else:
            members, network, ready_s = order[at : at + gathering[0]], gathering[1], gathering[2]
            via, path = aggregators[which].name, aggregators[which].outward
            free_s[which] = ready_s
        sent = network.segments(path, max(update.size_bytes for update in members), ready_s)
        network.reserve(path, sent)
        delivered_s = max(delivered_s, sent[-1][1])
        groups.append(Group(members=tuple(members), via=via, gathered_s=ready_s, arrived_s=delivered_s))
        at += len(members)
    return tuple(groups)


def _gather(
    order: Sequence[Update], aggregator: Aggregator, server: set[str], network: Reservations, times: tuple[float, float]
) -> tuple[int, Reservations, float] | None:
    """How many of the next updates can be summed at ``aggregator``, what that leaves of the network, and when they are.

    ``times``: from when on the aggregator is free, and when all earlier groups are at the server. None: fewer than two.
    """
    (free_s, delivered_s), count, network = times, 0, network.copy()
    for update in order:
        path = (*[name for name in update.path if name not in server], *aggregator.inward)
        sent = network.segments(path, update.size_bytes, max(free_s, update.ready_s))
        if sent[-1][1] > delivered_s:
            break
        network.reserve(path, sent)
        count, free_s = count + 1, sent[-1][1]
    return (count, network, free_s) if count > 1 else None
