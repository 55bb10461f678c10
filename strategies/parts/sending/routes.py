"""STAR's communication tree: workers send through each other where an update waits for many (pure).

STAR, section IV-D2: near workers are inner nodes, and add the gradients of their children to their own, so that the
root receives from ``fanout`` workers only. Parameters go down the same tree. With one gradient per update (ASGD)
nothing can be added on the way, so there is no tree. The paper gives no fan-out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strategies.parts.checks import check_whole

MOVED_FRAC = 0.2
"""Relative change of a latency above which the tree is built again."""


@dataclass(frozen=True)
class Tree:
    """Who sends to whom; ``parents[worker]`` is None for those who send to the root. Parents come before children."""

    parents: Mapping[int, int | None]

    def children(self, parent: int | None) -> tuple[int, ...]:
        """Who sends to ``parent``, or to the root (None), the nearest first."""
        return tuple(worker for worker, above in self.parents.items() if above == parent)

    def depth(self, worker: int) -> int:
        """Hops from ``worker`` to the root."""
        above = self.parents[worker]
        return 1 if above is None else 1 + self.depth(above)


def build(latencies_s: Mapping[int, float], fanout: int) -> Tree:
    """The tree of these workers, by latency to the root: the nearest first, level by level (ties: the lower number).

    Raises:
        ValueError: ``fanout`` is below 1.
    """
    check_whole("fanout", fanout, least=1)
    near = sorted(latencies_s, key=lambda worker: (latencies_s[worker], worker))
    return Tree({worker: None if at < fanout else near[at // fanout - 1] for at, worker in enumerate(near)})


def moved(built_s: Mapping[int, float], now_s: Mapping[int, float]) -> bool:
    """Whether other workers are there than when the tree was built, or a latency differs by more than a fifth."""
    if built_s.keys() != now_s.keys():
        return True
    return any(abs(now_s[worker] - was) > MOVED_FRAC * was for worker, was in built_s.items())


def going_direct(tree: Tree, ready_s: Mapping[int, float], wait_s: float) -> frozenset[int]:
    """Who does not wait for its parent, nor the parent for it: ready more than ``wait_s`` after the parent.

    Workers that are not in ``ready_s`` are not ready at all yet, and count as later than anybody.
    """
    late = float("inf")
    return frozenset(
        worker
        for worker, above in tree.parents.items()
        if above is not None and above in ready_s and ready_s.get(worker, late) - ready_s[above] > wait_s
    )
