"""Cores that a job has asked for (pure): of which node, and how many are in use by all others."""

from __future__ import annotations

from collections import Counter

from strategies.protocol import NodeId


class AskedCores:
    """The cores that were asked for nodes, and the nodes of low priority.

    Equal requests are counted, so that a sum over 10,000 nodes has as many terms as there are different requests.
    """

    def __init__(self) -> None:
        self._of: dict[NodeId, float] = {}
        self._low: set[NodeId] = set()
        self._nodes = Counter[tuple[float, bool]]()
        """How many nodes have so many cores, by whether they have low priority."""

    def of(self, node: NodeId) -> float | None:
        """The cores of a node; None if none were asked for it."""
        return self._of.get(node)

    def is_low(self, node: NodeId) -> bool:
        """Whether it has low priority."""
        return node in self._low

    def set(self, node: NodeId, cores: float | None) -> None:
        """A node has so many from now on; its priority stays."""
        self._count(node, -1)
        if cores is None:
            self._of.pop(node, None)
        else:
            self._of[node] = cores
        self._count(node, 1)

    def set_low(self, node: NodeId) -> None:
        """A node has low priority from now on."""
        self._count(node, -1)
        self._low.add(node)
        self._count(node, 1)

    def forget(self, node: NodeId) -> None:
        """A node has gone."""
        self.set(node, None)
        self._low.discard(node)

    def in_use(self, *, without: NodeId) -> tuple[float, float]:
        """(cores of all nodes ``without`` this one, cores of those among them that have low priority)."""
        all_cores = low_cores = 0.0
        for (cores, low), nodes in self._nodes.items():
            others = nodes - (self._of.get(without) == cores and (without in self._low) == low)
            all_cores += others * cores
            low_cores += others * cores * low
        return all_cores, low_cores

    def _count(self, node: NodeId, more: int) -> None:
        cores = self._of.get(node)
        if cores is None:
            return
        key = cores, node in self._low
        self._nodes[key] += more
        if not self._nodes[key]:
            del self._nodes[key]
