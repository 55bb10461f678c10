"""Servers that do one update after another: those that are and do alike are followed once, the others at need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from runtime.virtual.costs import Costs
from runtime.virtual.tasks.servers import Servers


@final
class Updates:
    """Updates of one gradient each; :meth:`begin` and :meth:`settle` keep ``servers`` right."""

    def __init__(self, servers: Servers, costs: Costs) -> None:
        self.servers, self.costs = servers, costs

    def begin(self, sent_s: float) -> None:
        """Updates from ``sent_s`` on last as long as one then."""
        self.durations = self.servers.durations(sent_s, 1)
        states = list(zip(self.servers.free_s, self.durations, strict=True))
        self.distinct = list(dict.fromkeys(states))
        """When a server is free, its seconds of work and its injected seconds: those with the same stay together."""
        self._same = [self.distinct.index(state) for state in states]
        self._last_s, (busy_s, injected_s) = max(states)
        last = all(own[0] <= busy_s and own[1] <= injected_s for _, own in self.distinct)
        self.slowest_s = (busy_s, injected_s) if last else None
        """Seconds of work and injected seconds of the server that is always the last; None if there may be none.

        Then each update is :meth:`all`.
        """

    def all(self, reached_s: float) -> float:
        """An update that reaches all servers then; returns when the last has done it."""
        free_s = self.servers.free_s
        for place, (busy_s, injected_s) in enumerate(self.durations):
            free_s[place] = max(free_s[place], reached_s) + busy_s + injected_s
        return max(free_s)

    def settle(self, handled_s: Sequence[float], idle_s: float) -> None:
        """Since the last call, the coordinator has ordered updates then; the last server is idle at ``idle_s``."""
        if not handled_s:
            return
        if self.slowest_s is None:
            self._count(len(handled_s), idle_s)
            return
        decision_s, control_s = self.costs.decision_s, self.costs.control_s
        ends_s = []
        for free_s, (busy_s, injected_s) in self.distinct:
            if (free_s, (busy_s, injected_s)) == (self._last_s, self.slowest_s):
                ends_s.append(idle_s)
                continue
            for t in handled_s:
                free_s = max(free_s, t + decision_s + control_s) + busy_s + injected_s
            ends_s.append(free_s)
        self._last_s = idle_s
        self.settle_at(ends_s, len(handled_s), idle_s)

    def settle_at(self, ends_s: Sequence[float], count: int, idle_s: float) -> None:
        """As :meth:`settle`, if somebody has followed all: when the servers of each distinct state are free."""
        self.distinct = [(end_s, each_s) for end_s, (_, each_s) in zip(ends_s, self.distinct, strict=True)]
        self.servers.free_s = [ends_s[number] for number in self._same]
        self._count(count, idle_s)

    def _count(self, count: int, idle_s: float) -> None:
        self.servers.count(self.durations, count)
        self.servers.idle_s = idle_s
