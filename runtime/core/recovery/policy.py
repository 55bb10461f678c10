"""The part of a recovery that depends on where the parameters are held (pure)."""

from __future__ import annotations

from typing import Protocol

from runtime.core.recovery.effects import Restored
from runtime.core.recovery.inputs import Halted, Loaded
from runtime.core.recovery.task import Key, TaskLife


class Policy(Protocol):
    """Parameter servers (:mod:`runtime.core.recovery.servers`) or replicas (:mod:`runtime.core.recovery.replicas`).

    Each leaves out what the other alone has to react to.
    """

    @property
    def primary(self) -> Key | None:
        """The replica that delivers to the evaluator; None where servers do."""

    @property
    def savers(self) -> tuple[Key, ...]:
        """Tasks that write the parts of a checkpoint."""

    def elect_primary(self, worker: Key) -> None:
        """This replica delivers to the evaluator, and writes checkpoints, from now on."""
        return

    def ready(self, task: TaskLife, version: int) -> None:
        """React to a process that is built; a replica holds ``version``."""

    def concerns_all(self, worker: TaskLife) -> bool:
        """Whether the loss of this worker makes all tasks roll back, or agree again."""

    def lost_early(self, worker: TaskLife) -> None:
        """React to a worker lost before the job has begun."""
        return

    def begin_again(self) -> None:
        """Begin a new generation after the loss of a server, or of a worker that concerns all."""

    def loaded(self, server: TaskLife, said: Loaded) -> None:
        """React to a server that has read its part."""
        return

    def follows(self, server: TaskLife) -> None:
        """React to a replica of the servers that has a copy."""
        return

    def lost_copy(self, server: TaskLife) -> None:
        """React to the loss of a server that held no part of the parameters."""
        return

    def halted(self, worker: TaskLife, said: Halted) -> None:
        """React to a replica that has halted."""
        return

    def takes_part(self, task: TaskLife) -> bool:
        """Whether this task's attachment counts."""

    def still_attaching(self) -> bool:
        """Whether a recovery waits for tasks that are not attached yet."""

    def complete(self) -> Restored:
        """Complete a recovery: all are attached. Tasks that came too late may join now."""
