"""Carries out ``bandwidth`` of machines elsewhere: every task's connections over a limited link are paced.

Tasks set the rates themselves and read them back from the kernel, so they need no privilege, and no rate outlives its
task. Other traffic on a link (orders, evaluations, other programs) is not limited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from runtime.cluster.link_flows import Flow, flows_of, rates_of_flows
from runtime.live.hosts.rules import PAYLOAD_FRAC
from runtime.live.transport.messages import LinksPaced, Message, PaceLinks
from strategies.protocol import NodeId


class LinkRate(NamedTuple):
    """The rate of a link or route, in bytes per second on the wire; None for no limit."""

    asked: float | None
    achieved: float | None
    """As the kernels of all its senders report it; None also where nothing is sent over it."""
    problem: str = ""


Then = Callable[[LinkRate], None]


class _Change:
    """A change of one target that some tasks have not carried out yet."""

    def __init__(self, target: str, asked: float | None, rates: dict[Flow, int], then: Then) -> None:
        self.target, self.asked, self.rates, self.then = target, asked, rates, then
        self.achieved: dict[Flow, int | None] = {}
        self.awaited: set[NodeId] = set()
        self.problem = ""


class LinkPacing:
    """The limits of all links now, and the rates that every task was sent last.

    ``link_bytes_per_s``: of each machine on the wire, without a limit. ``machine_of`` returns the machine's number of
    every worker and server, ``here`` those that are connected; ``send`` sends to one of these.
    """

    def __init__(
        self,
        link_bytes_per_s: float,
        machine_of: Callable[[], Mapping[str, int]],
        here: Callable[[], Collection[NodeId]],
        send: Callable[[NodeId, Message], None],
    ) -> None:
        self.link_bytes_per_s, self.machine_of, self.here, self.send = link_bytes_per_s, machine_of, here, send
        self._limits: dict[str, float] = {}
        """Bytes of payload per second, by target."""
        self._heard: dict[NodeId, dict[str, int]] = {}
        """The rates towards others that a task was sent last."""
        self._order = 0
        self._changes: dict[int, _Change] = {}

    def change(self, target: str, level: float, then: Then) -> None:
        """Leave the fraction ``level`` of a link's or route's rate; ``then`` receives what is in effect."""
        asked = None if level == 1.0 else self.link_bytes_per_s * level
        if asked is None:
            self._limits.pop(target, None)
        else:
            self._limits[target] = asked * PAYLOAD_FRAC
        machine_of = self.machine_of()
        rates, (sharing, *_) = self._rates(machine_of), flows_of(target, machine_of)
        change = _Change(target, asked, {flow: rates[flow] for flow in sharing if flow in rates}, then)
        self._order += 1
        asked_of = self._tell_all(rates)
        change.awaited = asked_of.intersection(self.here())  # sending shows that some are gone
        self._changes[self._order] = change
        self._end_if_done(self._order)

    def look(self) -> None:
        """Tasks have come or gone, or are elsewhere: the rates may be divided otherwise."""
        if self._limits or any(self._heard.values()):
            self._order += 1
            self._tell_all(self._rates(self.machine_of()))

    def ready(self, node: NodeId) -> None:
        """The next incarnation of a task is connected, and has heard nothing."""
        self.left(node)
        self.look()

    def left(self, node: NodeId) -> None:
        """A task's process is gone: nothing of it is limited, and no answer will come."""
        self._heard.pop(node, None)
        for order, change in list(self._changes.items()):
            change.awaited.discard(node)
            self._end_if_done(order)

    def answered(self, node: NodeId, message: LinksPaced) -> None:
        """A task says what its kernel holds."""
        if (change := self._changes.get(message.order)) is None:
            return
        change.awaited.discard(node)
        change.achieved |= {(str(node), to): rate for to, rate in message.achieved.items()}
        change.problem = change.problem or (f"{node}: {message.problem}" if message.problem else "")
        self._end_if_done(message.order)

    def _rates(self, machine_of: Mapping[str, int]) -> dict[Flow, int]:
        return {flow: max(1, round(rate)) for flow, rate in rates_of_flows(machine_of, self._limits).items()}

    def _tell_all(self, rates: Mapping[Flow, int]) -> set[NodeId]:
        """Tell every task whose rates have changed; returns these tasks."""
        towards: dict[NodeId, dict[str, int]] = {}
        for (sender, receiver), rate in rates.items():
            towards.setdefault(NodeId.parse(sender), {})[receiver] = rate
        here = set(self.here())
        changed = {node for node in here if towards.get(node, {}) != self._heard.get(node, {})}
        for node in sorted(changed):
            self._heard[node] = towards.get(node, {})
            self.send(node, PaceLinks(order=self._order, towards=self._heard[node]))
        return changed

    def _end_if_done(self, order: int) -> None:
        change = self._changes.get(order)
        if change is None or change.awaited:
            return
        del self._changes[order]
        change.then(LinkRate(change.asked, _measure_achieved(change), change.problem))


def _measure_achieved(change: _Change) -> float | None:
    """Return the asked rate times the part of it that the kernels hold, over the connections that exist; or None."""
    achieved = {flow: rate for flow, rate in change.achieved.items() if flow in change.rates}
    if change.asked is None or not achieved or None in achieved.values():
        return None
    return change.asked * sum(rate or 0 for rate in achieved.values()) / sum(change.rates[flow] for flow in achieved)
