"""The supervisor's notifications to the session."""

from __future__ import annotations

from typing import Protocol

from runtime.core.inputs import OfRecovery
from runtime.live.transport.messages import AgentReady
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId


class Listener(Protocol):
    """Receives the supervisor's notifications."""

    def note(self, kind: str, /, **fields: object) -> None: ...

    def agent_ready(self, message: AgentReady) -> None:
        """The framework is imported on one node."""
        ...

    def agents_ready(self) -> None:
        """On all: tasks can be started."""
        ...

    def agent_lost(self, number: int) -> None:
        """Nobody can be started on its node any more."""
        ...

    def all_attached(self) -> None:
        """All tasks are connected: the job can start."""
        ...

    def recovery_says(self, news: OfRecovery) -> None:
        """Who is lost, who has joined, and when all are at one version again."""
        ...

    def moved(self, node: NodeId) -> Place | None:
        """A task will be started on another machine; returns its place if machines are emulated."""
        ...

    def state_of(self, version: int) -> bytes:
        """The data service's state when this version was the newest."""
        ...

    def left(self) -> None:
        """All tasks of a preempted job have ended."""
        ...

    def failed(self, reason: str) -> None:
        """The run cannot continue."""
        ...

    def out_of_space(self, reason: str) -> None:
        """The run cannot continue, because the disk is full."""
        ...

    def overdue(self, now: float, limit_s: float) -> list[int]:
        """Workers whose current Compute has taken longer than ``limit_s``."""
        ...
