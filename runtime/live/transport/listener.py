"""The supervisor's notifications to the session."""

from __future__ import annotations

from typing import Protocol

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

    def worker_lost(self, worker: int, reason: str, restarting: bool) -> None:
        """A worker's process is lost."""
        ...

    def worker_joined(self, worker: int, incarnation: int) -> None:
        """A new or restarted worker is connected to all servers."""
        ...

    def scorer_joined(self) -> None:
        """A new or restarted scorer is connected to all servers: request pending references again."""
        ...

    def evaluator_lost(self) -> None:
        """The evaluator is lost: pending evaluations will not be answered."""
        ...

    def server_lost(self, server: int, incarnation: int, reason: str) -> None:
        """A server is lost; the job is paused."""
        ...

    def restored(self, version: int, state: bytes) -> None:
        """All servers have restored a checkpoint, and all workers are connected to them."""
        ...

    def state_of(self, version: int) -> bytes:
        """The data service's state when ``version``, which replicas hold, was the newest."""
        ...

    def moved(self, node: NodeId) -> Place | None:
        """A task will be started on another machine; returns its place if machines are emulated."""
        ...

    def rolled_back(self) -> None:
        """All tasks roll back to the last checkpoint: work in progress is void."""
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
