"""The recovery's state of one task (pure)."""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from runtime.core.recovery.states import TASK_TABLE, TaskState, TaskStep, after
from strategies.protocol import AGGREGATOR, NodeId

Key = NodeId
"""Roles of workers, servers and auxiliary tasks (``evaluator``, ``scorer``, aggregators); the latter are no nodes."""
Holder = Literal["plan", "scheduler", "cluster"]
REMEMBERED_STEPS = 12
ALIVE = frozenset({TaskState.LAUNCHING, TaskState.READY, TaskState.ATTACHED})
"""States with a process, or with one that is already launched."""
REACHABLE = frozenset({TaskState.READY, TaskState.ATTACHED})


class TaskLife(msgspec.Struct, kw_only=True):
    """One task through all its incarnations."""

    role: str
    id: int
    incarnation: int = 0
    state: TaskState = TaskState.LAUNCHING
    holders: set[Holder] = msgspec.field(default_factory=set)
    """Reasons why it cannot start: a kill of the plan, the wait for a place, the cluster that took its place."""
    admitted: bool = False
    """Whether it was launched while the job ran."""
    awaited: bool = True
    """Whether others may have to wait for it while it has no place: not for one that was never there."""
    useful: bool = False
    """Whether this incarnation was useful: a worker delivered a gradient, another task was ready for work."""
    futile: int = 0
    """Incarnations in a row that died before they were useful."""
    crowded: int = 0
    """Incarnations in a row that found too little memory on their device, before they were useful."""
    notified: bool = False
    """Whether the job was notified that this incarnation is connected."""
    history: deque[str] = msgspec.field(default_factory=lambda: deque(maxlen=REMEMBERED_STEPS))

    @property
    def key(self) -> Key:
        return NodeId(self.role, self.id)

    @property
    def name(self) -> str:
        return f"{self.role} {self.id}" if self.role in ("worker", "server", AGGREGATOR) else self.role

    def expects(self, incarnation: int) -> bool:
        """Whether inputs of this incarnation still count."""
        return incarnation == self.incarnation and self.state in ALIVE

    def step(self, step: TaskStep) -> None:
        """Change to the next state; raises :class:`runtime.core.recovery.states.ImpossibleTransitionError`."""
        self.state = after(TASK_TABLE, self.state, step, self.name, self.history)
        self.history.append(f"{step} (incarnation {self.incarnation})")

    def end(self, step: TaskStep) -> int:
        """End the incarnation by this step; returns its number."""
        self.step(step)
        gone = self.incarnation
        self.futile = 0 if self.useful else self.futile + 1
        self.crowded = 0 if self.useful else self.crowded
        self.incarnation += 1
        self.useful = self.notified = False
        return gone
