"""The job's side of a set whose cluster grants nodes and cores: whom it asks, and what it has asked for (pure)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final

from runtime.core.node_orders import LaunchOrder
from strategies.protocol import NodeId

OnHost = Callable[[], str | None]
"""Reserves cores on the host itself; returns why it has not so many, None if they are reserved."""


class Desk(Protocol):
    """Where a job of a set asks for nodes and cores, which its cluster grants."""

    def ask(self, node: NodeId, order: LaunchOrder) -> None:
        """Ask for a node; the runtime learns later whether it is granted or refused."""

    def allot(self, node: NodeId, cores: float, reserve: OnHost) -> str | None:
        """Ask for so many cores of a node's host; returns why it does not get them, None if it has them.

        ``reserve`` is called last, so that only cores count as allotted that the host has.
        """

    def leaving(self, node: NodeId) -> None:
        """Give a node back, or take a request back."""


@final
class Requests:
    """The nodes that a job has asked for and that are neither there nor refused."""

    def __init__(self) -> None:
        self.desk: Desk | None = None
        """None: hosts belong to the job alone, or to jobs of a fixed size."""
        self._orders: dict[NodeId, LaunchOrder] = {}

    def ask(self, order: LaunchOrder) -> bool:
        """Ask for a node; False: there is nobody to ask."""
        if self.desk is None:
            return False
        node = NodeId.parse(order.node)
        self._orders[node] = order
        self.desk.ask(node, order)
        return True

    def withdraw(self, node: NodeId) -> None:
        """Take a request back, if the node is neither there nor refused."""
        if self._orders.pop(node, None) is not None and self.desk is not None:
            self.desk.leaving(node)

    def allot(self, node: NodeId, cores: float | None, reserve: OnHost) -> str | None:
        """Ask for so many cores of a node's host (None: none in particular); returns why it does not get them."""
        return reserve() if self.desk is None else self.desk.allot(node, cores or 0.0, reserve)

    def answered(self, node: NodeId) -> LaunchOrder | None:
        """The order of a node that is granted or refused now; None: it was taken back meanwhile."""
        return self._orders.pop(node, None)
