"""What the supervisor tells whoever runs the job."""

from __future__ import annotations

from typing import Protocol

from runtime.live.transport.messages import AgentReady
from runtime.live.transport.task_spec import Place


class Listener(Protocol):
    """What the session wants to know."""

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
        """The job can start."""
        ...

    def worker_lost(self, worker: int, reason: str, restarting: bool) -> None:
        """A worker is gone."""
        ...

    def worker_joined(self, worker: int, incarnation: int) -> None:
        """A worker is (again) connected to all servers."""
        ...

    def scorer_joined(self) -> None:
        """The scorer is (again) connected to all servers: what another was asked is to be asked again."""
        ...

    def evaluator_lost(self) -> None:
        """What it was asked will not be answered."""
        ...

    def server_lost(self, server: int, incarnation: int, reason: str) -> None:
        """A server is gone; all else stands still."""
        ...

    def restored(self, version: int, state: bytes) -> None:
        """All servers hold a checkpoint again, all workers are connected to them."""
        ...

    def state_of(self, version: int) -> bytes:
        """The data service's state when ``version``, which replicas hold, was the newest."""
        ...

    def moved(self, role: str, number: int) -> Place | None:
        """A task will be started on another machine; where that is, if there are emulated ones."""
        ...

    def rolled_back(self) -> None:
        """Everybody goes back to the last checkpoint: what is under way is void."""
        ...

    def failed(self, reason: str) -> None:
        """The run cannot go on."""
        ...

    def out_of_space(self, reason: str) -> None:
        """The run cannot go on, since there is no room for what was to be written."""
        ...

    def overdue(self, now: float, limit_s: float) -> list[int]:
        """Workers that have computed for longer than ``limit_s``."""
        ...
