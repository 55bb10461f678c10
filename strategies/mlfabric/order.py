"""MLfabric's order of updates: shortest transfer first, unless a deadline is due, and drops (pure).

Slides 10 to 13: the next slot belongs to the transfer that ends first, given what is reserved, so that updates arrive
early on average. An update whose deadline is this slot goes instead, so that no applied update has a delay above
``tau_max``. One that would keep the server waiting for long is dropped. Our decisions where the slides leave them open:
slots count from 0, an update that no slot can hold any more is dropped too ("missed"), and "for long" is a number of
seconds.

Slide 14: neighbours in the order may go to an aggregator first, which sends their sum, so that fewer bytes enter the
server; members of group i are at the aggregator no later than all earlier groups are at the server, so that no transfer
waits for an aggregate. A group is one update: members keep their order, and have smaller delays than without groups.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from strategies.mlfabric.fluid import Dropped, Links, Reservations, Segment, Slot, Update, check, deadline, solo_s


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
    """Cut updates into groups, without changing their order (MLfabric, slide 14).

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
    """How many of the next updates can be summed at ``aggregator``, the network's remaining rates, and their times.

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


@dataclass(frozen=True, kw_only=True)
class Order:
    """Slots in the order in which they are applied, and what is not sent; every pending update is in one of them."""

    slots: tuple[Slot, ...]
    drops: tuple[Dropped, ...]


def plan(
    pending: Sequence[Update],
    links: Links,
    *,
    now_s: float,
    version: int,
    tau_max: float,
    idle_tolerance_s: float | None = None,
    running: Sequence[Slot] = (),
) -> Order:
    """Order the ``pending`` updates (MLfabric, slides 10 to 13).

    Args:
        pending: the updates that wait, in any order.
        links: capacities of all links that their paths name.
        now_s: no transfer begins earlier.
        version: updates applied so far; the first slot after ``running`` is applied at ``version + len(running)``.
        tau_max: bound on the delay of every applied update, in versions; ``math.inf``: shortest first and no drop.
        idle_tolerance_s: an update that is due is dropped if it would be applied more than this later than the
            shortest. ``None``: the median of the pending transfers' durations alone; ``math.inf``: never.
        running: slots of an earlier plan that are neither applied nor lost: they keep what they have reserved.

    Raises:
        ValueError: an unknown link, a capacity that is not positive, or two updates with the same id.
    """
    check((*pending, *(slot.update for slot in running)), links)
    network = Reservations(links, now_s)
    for slot in running:
        network.reserve(slot.update.path, slot.segments)
    first = version + len(running)
    queue = [
        _Waiting(update, solo_s(update, links), now_s, deadline(update, tau_max, first))
        for update in sorted(pending, key=lambda one: one.id)
    ]
    _tell_kinds(queue, links, running)
    tolerance = idle_tolerance_s
    if tolerance is None:
        tolerance = median(waiting.solo_s for waiting in queue) if queue else 0.0
    last_s = max((slot.commit_s for slot in running), default=now_s)
    slots: list[Slot] = []
    drops: list[Dropped] = []
    while queue:
        number = len(slots)
        due = [waiting for waiting in queue if waiting.last_slot <= number]
        for waiting in [one for one in due if one.last_slot < number]:
            drops.append(Dropped(update=waiting.update, reason="missed"))
            queue.remove(waiting)
            due.remove(waiting)
        if not queue:
            break
        shortest = _shortest(queue, network)
        chosen = _shortest(due, network) if due else shortest
        queue.remove(chosen)
        commit_s = max(last_s, chosen.finish_s)
        if commit_s - max(last_s, shortest.finish_s) > tolerance:
            drops.append(Dropped(update=chosen.update, reason="idle"))
            continue
        network.reserve(chosen.update.path, chosen.segments)
        slots.append(chosen.slot(commit_s, first + len(slots)))
        last_s = commit_s
    return Order(slots=tuple(slots), drops=tuple(drops))


class _Waiting:
    """An update without a slot, and the last known values of its transfer: bounds, since reservations only grow."""

    __slots__ = ("finish_s", "kind", "last_slot", "segments", "solo_s", "start_s", "update")

    def __init__(self, update: Update, solo_s: float, now_s: float, last_slot: float) -> None:
        self.update = update
        self.last_slot = last_slot
        self.kind = 0
        """Transfers of the same kind would each end at the same time."""
        self.solo_s = solo_s
        self.start_s = max(update.ready_s, now_s)
        self.finish_s = self.start_s + solo_s
        self.segments: tuple[Segment, ...] = ()

    def least_s(self, network: Reservations) -> float:
        """A better bound on the finish: no transfer uses a full link."""
        self.start_s = network.open_s(self.update.path, self.start_s)
        self.finish_s = max(self.finish_s, self.start_s + self.solo_s)
        return self.finish_s

    def look(self, network: Reservations) -> None:
        """Learn the exact start and finish."""
        self.segments = network.segments(self.update.path, self.update.size_bytes, self.start_s)
        self.start_s, self.finish_s = self.segments[0][0], self.segments[-1][1]

    def slot(self, commit_s: float, version: int) -> Slot:
        return Slot(
            update=self.update,
            start_s=self.start_s,
            finish_s=self.finish_s,
            commit_s=commit_s,
            version=version,
            segments=self.segments,
        )


def _tell_kinds(queue: Sequence[_Waiting], links: Links, running: Sequence[Slot]) -> None:
    """Updates of one size that share all links are of one kind, if those that only one of them uses are as fast."""
    uses = Counter(name for waiting in queue for name in set(waiting.update.path))
    uses.update(name for slot in running for name in slot.update.path)
    numbers: dict[object, int] = {}
    for waiting in queue:
        path = waiting.update.path
        own = min((links[name] for name in path if uses[name] == 1), default=math.inf)
        shared = tuple([name for name in path if uses[name] > 1])
        own = min([own, *(links[name] for name in shared)])  # faster than that it never sends
        kind = (waiting.update.size_bytes, waiting.start_s, own, shared)
        waiting.kind = numbers.setdefault(kind, len(numbers))


def _shortest(queue: Sequence[_Waiting], network: Reservations) -> _Waiting:
    """The transfer that ends first; the exact end is asked for only where the bounds leave a chance.

    Of each kind only the first can: ``queue`` is in the order of ids.
    """
    best: _Waiting | None = None
    least_s = math.inf
    heads: dict[int, _Waiting] = {}
    for waiting in queue:
        heads.setdefault(waiting.kind, waiting)
    for waiting in sorted(heads.values(), key=lambda one: (one.finish_s, one.update.id)):
        if waiting.finish_s > least_s:
            break
        if waiting.least_s(network) > least_s:
            continue
        waiting.look(network)
        if best is None or (waiting.finish_s, waiting.update.id) < (least_s, best.update.id):
            best, least_s = waiting, waiting.finish_s
    assert best is not None, "nobody waits"
    return best
