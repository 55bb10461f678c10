"""The tree of workers whose gradients make one update, and which of them are to be sent now, and how (pure).

STAR, section IV-D2: near workers are inner nodes, and add the gradients of their children to their own, so that the
root receives from ``fanout`` workers only. Parameters go down the same tree. With one gradient per update (ASGD)
nothing can be added on the way, so there is no tree. The paper gives no fan-out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple, final

from reading.ranges import check_whole
from strategies.protocol import NodeId

MOVED_FRAC = 0.2
"""Relative change of a latency above which the tree is built again."""


@dataclass(frozen=True)
class Tree:
    """A tree of workers; ``parents[worker]`` is None for those that send to the root. Parents come before children."""

    parents: Mapping[int, int | None]

    def children(self, parent: int | None) -> tuple[int, ...]:
        """Workers that send to ``parent``, or to the root (None), the nearest first."""
        return tuple(worker for worker, above in self.parents.items() if above == parent)


def build(latencies_s: Mapping[int, float], fanout: int) -> Tree:
    """The tree of these workers, by latency to the root: the nearest first, level by level (ties: the lower number).

    Raises:
        ValueError: ``fanout`` is below 1.
    """
    check_whole("fanout", fanout, least=1)
    near = sorted(latencies_s, key=lambda worker: (latencies_s[worker], worker))
    return Tree({worker: None if at < fanout else near[at // fanout - 1] for at, worker in enumerate(near)})


def has_moved(built_s: Mapping[int, float], now_s: Mapping[int, float]) -> bool:
    """Whether other workers are there than when the tree was built, or a latency differs by more than a fifth."""
    if built_s.keys() != now_s.keys():
        return True
    return any(abs(now_s[worker] - was) > MOVED_FRAC * was for worker, was in built_s.items())


def going_direct(tree: Tree, ready_s: Mapping[int, float], wait_s: float) -> frozenset[int]:
    """Workers that do not wait for their parents, nor these for them: ready more than ``wait_s`` after the parent.

    Workers that are not in ``ready_s`` are not ready yet and count as the latest.
    """
    late = float("inf")
    return frozenset(
        worker
        for worker, above in tree.parents.items()
        if above is not None and above in ready_s and ready_s.get(worker, late) - ready_s[above] > wait_s
    )


WAIT_FRAC = 0.5
"""Part of the median iteration for which nodes wait where no time is given."""
ROUNDING_S = 1e-9


class Outgoing(NamedTuple):
    """Workers whose gradients are to be sent now, as one sum ``via`` an aggregator or (None) each to the servers."""

    workers: tuple[int, ...]
    via: str | None = None


@final
class Subtrees:
    """One group's tree, with the aggregator of every inner node and the times at which it is waited for.

    The tree stays as it is during a round. ``members`` are the workers for which it was made.
    """

    def __init__(self, members: Collection[int], fanout: int) -> None:
        self.members, self._fanout = frozenset(members), fanout
        self._built_s: dict[int, float] = {}
        self.tree = build({}, fanout)
        self.via: dict[int, str] = {}
        self._wakes: dict[int, float] = {}
        """When the timer of a subtree is due, by its inner node."""

    def open(self, latency_s: Mapping[int, float]) -> bool:
        """A round begins: its tree is made from the latencies known by now. Returns whether that is another one."""
        self._wakes = {}
        known_s = {worker: latency_s[worker] for worker in self.members if worker in latency_s}
        if not has_moved(self._built_s, known_s):
            return False
        self._built_s, self.tree = known_s, build(known_s, self._fanout)
        return True

    def sends(
        self,
        t: float,
        held: Collection[int],
        coming: Collection[int],
        ready_s: Mapping[int, float],
        wait_s: float,
    ) -> Iterator[Outgoing | float]:
        """The sends of time ``t``; a number is a time at which to ask again.

        Args:
            t: now, in seconds.
            held: workers that hold a gradient.
            coming: members whose gradient is not ready yet, and will be.
            ready_s: since when it has been, of all others whose gradient of this round was ready.
            wait_s: for how long an inner node waits for its children, and the first of them for it.
        """
        reached = set[int]()
        for parent in self.tree.children(None):
            subtree = (parent, *self.tree.children(parent))
            reached.update(subtree)
            pending = [worker for worker in subtree if worker in held]
            if not pending:
                continue
            until_s = ready_s.get(parent, min(ready_s[worker] for worker in pending)) + wait_s
            if any(worker in coming for worker in subtree) and t < until_s - ROUNDING_S:
                if self._wakes.get(parent, t) <= t:
                    self._wakes[parent] = until_s
                    yield until_s
                continue
            late = going_direct(self.tree, ready_s, wait_s)
            if together := tuple(worker for worker in pending if worker not in late):
                yield Outgoing(together, self.via.get(parent))
            yield from (Outgoing((worker,)) for worker in pending if worker in late)
        # whose latency is not known yet, and newcomers for which two levels have no room
        yield from (Outgoing((worker,)) for worker in held if worker in self.members and worker not in reached)


def assign_aggregators(
    groups: Sequence[Sequence[int]], names: Sequence[str], places: Mapping[str, str], *, sharing: bool
) -> list[dict[int, str]]:
    """The aggregator that sums for each inner node, by group: one on its host if there is one, or else any.

    The least used one of those in question, so that two inner nodes share one only where there are not enough.

    Args:
        groups: the inner nodes of every group.
        names: the aggregators.
        places: hosts of tasks, by name.
        sharing: whether inner nodes on one host share what is there, rather than take one elsewhere that is free.
    """
    uses = Counter(dict.fromkeys(names, 0))
    found = [dict[int, str]() for _ in groups]
    for elsewhere in (False, True):  # workers with one on their own host come first
        for own, inner in zip(found, groups, strict=True):
            for worker in inner:
                host = places.get(str(NodeId.worker(worker)))
                here = [name for name in names if host is not None and places.get(name) == host]
                here = here if sharing else [name for name in here if not uses[name]]
                if worker not in own and (here or elsewhere):
                    own[worker] = min(here or names, key=lambda name: uses[name])
                    uses[own[worker]] += 1
    return found


def waiting_s(took_s: Mapping[int, float], members: Collection[int]) -> float:
    """Half of the median iteration of the members that are known; 0 without any."""
    known = [took_s[worker] for worker in members if worker in took_s]
    return WAIT_FRAC * median(known) if known else 0.0
