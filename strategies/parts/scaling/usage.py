"""The use of every node while the job has the same nodes: the numbers that the Brain decides by (pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import final

import msgspec

from strategies.protocol import NodeId
from strategies.protocol.finished import WINDOW


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of a node; with ``low_priority`` it is preempted first when others need the cores."""

    cores: int
    memory_bytes: int
    low_priority: bool = False


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A node's use since the last observation: cores, part of the time in updates (0 to 1), memory."""

    cores: float
    busy_frac: float = 0.0
    memory_bytes: int = 0


@final
class UsageHistory:
    """Keeps the last observations of one membership; another one, or other cores of a node, begins again.

    ``given`` says what each node of the present membership has.
    """

    def __init__(self) -> None:
        self.given: dict[NodeId, Given] = {}
        self._seen: deque[Mapping[NodeId, Use]] = deque(maxlen=WINDOW)

    def observe(self, given: Mapping[NodeId, Given], uses: Mapping[NodeId, Use]) -> None:
        """One observation of the nodes that were there during all of it.

        Raises:
            ValueError: a node was given something and nothing is known of its use.
        """
        if missing := sorted(given.keys() - uses.keys()):
            raise ValueError(f"nothing is known of what {', '.join(map(str, missing))} used")
        if dict(given) != self.given:
            self.forget()
            self.given = dict(given)
        self._seen.append({node: uses[node] for node in given})

    def forget(self) -> None:
        """Drop all observations, as after a change."""
        self.given = {}
        self._seen.clear()

    @property
    def complete(self) -> bool:
        """Whether there are as many observations as a decision needs."""
        return len(self._seen) == WINDOW

    def nodes(self, role: str) -> list[NodeId]:
        """All nodes of a role, ``worker`` or ``server``, by number."""
        return sorted(node for node in self.given if node.role == role)

    def cores(self, node: NodeId, last: int = WINDOW) -> float:
        """Mean cores that a node used over its ``last`` observations."""
        return self._mean([one[node].cores for one in self._seen], last)

    def busy_frac(self, node: NodeId, last: int = WINDOW) -> float:
        """Mean part of the time that a server spent in updates over its ``last`` observations."""
        return self._mean([one[node].busy_frac for one in self._seen], last)

    def memory_bytes(self, node: NodeId) -> int:
        """Peak over the observations that are kept."""
        return max(one[node].memory_bytes for one in self._seen)

    def _mean(self, values: list[float], last: int) -> float:
        recent = values[-last:]
        return sum(recent) / len(recent)
