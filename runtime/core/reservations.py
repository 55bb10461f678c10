"""The reservations of a job on its hosts: their answers and their limits (pure)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Protocol, final

from strategies.protocol import RESOURCES, ProtocolError, Reserve, Reserved


class Reservations(Protocol):
    """Answers a job's reservations: its cluster, or :class:`Alone`."""

    def reserve(self, t: float, command: Reserve) -> Reserved:
        """The answer at the job's time ``t``; granted shares are in force already."""


@final
class Alone:
    """No other job can be on the job's hosts: it has what it needs."""

    def reserve(self, t: float, command: Reserve) -> Reserved:
        return Reserved(t=t, ok=True)


def check_demands(command: Reserve, nodes: Collection[str]) -> None:
    """Raise :class:`ProtocolError` unless each demand is of one of these ``nodes``, and of an amount."""
    if not math.isfinite(command.worth_s):
        raise ProtocolError(f"{command}: worth_s={command.worth_s}: must be a finite number")
    named = set[str]()
    for demand in command.demands:
        if demand.node not in nodes:
            raise ProtocolError(f"{command}: there is no node {demand.node} now")
        if demand.node in named:
            raise ProtocolError(f"{command}: names {demand.node} twice")
        named.add(demand.node)
        for resource in RESOURCES:
            amount = getattr(demand, resource)
            if not 0 <= amount < math.inf:
                raise ProtocolError(f"{command}: {resource}={amount}: must be a finite number, 0 or more")
