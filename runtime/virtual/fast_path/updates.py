"""Servers that do one update after another: only the one that is always the last is followed, the others at need."""

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

    def begin(self, sent_s: float) -> tuple[float, float] | None:
        """Updates from ``sent_s`` on last as long as one then: seconds of work, injected seconds of the last server.

        None if no server is behind the others in all that counts: then each update is :meth:`all`.
        """
        self.durations = self.servers.durations(sent_s, 1)
        self.states = list(zip(self.servers.free_s, self.durations, strict=True))
        free_s, (busy_s, injected_s) = max(self.states)
        last = all(own[0] <= busy_s and own[1] <= injected_s for _, own in self.states)
        self.last = (free_s, (busy_s, injected_s)) if last else None
        return (busy_s, injected_s) if last else None

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
        decision_s, control_s = self.costs.decision_s, self.costs.control_s
        if self.last is not None:
            ends = {self.last: idle_s}
            for state in {*self.states} - {self.last}:
                free_s, (busy_s, injected_s) = state
                for t in handled_s:
                    free_s = max(free_s, t + decision_s + control_s) + busy_s + injected_s
                ends[state] = free_s
            self.servers.free_s = [ends[state] for state in self.states]
            self.states = list(zip(self.servers.free_s, self.durations, strict=True))
            self.last = (idle_s, self.last[1])
        self.servers.count(self.durations, len(handled_s))
        self.servers.idle_s = idle_s
