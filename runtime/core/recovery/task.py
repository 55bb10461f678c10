"""What is known of one task, whoever runs it (pure)."""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from runtime.core.recovery.states import TASK_TABLE, TaskState, TaskStep, after
from strategies.protocol import NodeId

Key = NodeId
"""Of workers and servers, and of auxiliary tasks (``evaluator``, ``scorer``), which only a runtime knows as nodes."""
Holder = Literal["plan", "scheduler"]
REMEMBERED_STEPS = 12
ALIVE = frozenset({TaskState.LAUNCHING, TaskState.READY, TaskState.ATTACHED})
"""There is a process, or there will be one that has been ordered already."""
REACHABLE = frozenset({TaskState.READY, TaskState.ATTACHED})


class TaskLife(msgspec.Struct, kw_only=True):
    """One task through all its incarnations."""

    role: str
    id: int
    incarnation: int = 0
    state: TaskState = TaskState.LAUNCHING
    holders: set[Holder] = msgspec.field(default_factory=set)
    """Who has killed it and does not want it started yet."""
    useful: bool = False
    """This incarnation has done something: a worker has delivered a gradient, others were ready for work."""
    futile: int = 0
    """Incarnations in a row that died before they were useful."""
    notified: bool = False
    """Whether the job was notified that this incarnation is connected."""
    history: deque[str] = msgspec.field(default_factory=lambda: deque(maxlen=REMEMBERED_STEPS))

    @property
    def key(self) -> Key:
        return NodeId(self.role, self.id)

    @property
    def name(self) -> str:
        return f"{self.role} {self.id}" if self.role in ("worker", "server") else self.role

    def expects(self, incarnation: int) -> bool:
        """Whether something that this incarnation says still counts."""
        return incarnation == self.incarnation and self.state in ALIVE

    def step(self, step: TaskStep) -> None:
        """To the next state; raises :class:`runtime.core.recovery.states.ImpossibleTransitionError`."""
        self.state = after(TASK_TABLE, self.state, step, self.name, self.history)
        self.history.append(f"{step} (incarnation {self.incarnation})")

    def end(self, step: TaskStep) -> int:
        """The incarnation ends in this way; returns its number."""
        self.step(step)
        gone = self.incarnation
        self.futile = 0 if self.useful else self.futile + 1
        self.incarnation += 1
        self.useful = self.notified = False
        return gone
