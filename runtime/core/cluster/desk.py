"""The desk of a cluster at which one of its jobs asks for nodes and cores (pure)."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from runtime.core.cluster.brain.brain import Asked
from runtime.core.cluster.inputs import AnyInput, CoresReturned, NodeAsked, NodeLeft
from runtime.core.desk import OnHost
from runtime.core.node_orders import LaunchOrder
from strategies.protocol import NodeId

Report = Callable[[AnyInput], None]
"""Tells the automaton of the cluster what has happened, now."""
Allot = Callable[[str, NodeId, float, OnHost], str | None]
"""Called with a job, a node, the cores that it is to have, and what reserves them; returns why it does not get them."""


def _nothing(job: str = "") -> None:
    """For a runtime that has nothing to do then."""


@final
class JobDesk:
    """Where one job asks its cluster; see :class:`runtime.core.desk.Desk`.

    Args:
        job: its name.
        report: tells the automaton.
        allot: asks the automaton for cores.
        leaving: called with the job's name before one of its nodes is reported as gone.
        reported: called after every report.
    """

    def __init__(
        self,
        job: str,
        report: Report,
        allot: Allot,
        leaving: Callable[[str], None] = _nothing,
        reported: Callable[[], None] = _nothing,
    ) -> None:
        self._job, self._report, self._allot, self._leaving, self._reported = job, report, allot, leaving, reported

    def ask(self, node: NodeId, order: LaunchOrder) -> None:
        not_on = tuple(NodeId.parse(host).number for host in order.not_on)
        asked = Asked(job=self._job, node=node, cores=order.cpu_cores or 0.0, low=order.low, not_on=not_on)
        self._report(NodeAsked(asked))
        self._reported()

    def allot(self, node: NodeId, cores: float, reserve: OnHost) -> str | None:
        refused = self._allot(self._job, node, cores, reserve)
        if refused is None:
            self._report(CoresReturned(self._job))
        self._reported()
        return refused

    def leaving(self, node: NodeId) -> None:
        self._leaving(self._job)
        self._report(NodeLeft(self._job, node))
        self._reported()
