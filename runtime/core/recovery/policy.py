"""What depends on where the parameters live (pure)."""

from __future__ import annotations

from typing import Protocol

from runtime.core.recovery.effects import Restored
from runtime.core.recovery.inputs import Halted, Loaded
from runtime.core.recovery.task import Key, TaskLife


class Policy(Protocol):
    """Parameter servers (:mod:`runtime.core.recovery.servers`) or replicas (:mod:`runtime.core.recovery.replicas`)."""

    @property
    def ring(self) -> tuple[Key, ...]:
        """Replicas that take part in an update that is ordered now; empty where there are servers."""
        ...

    @property
    def speaker(self) -> Key | None:
        """The replica that the evaluator hears from; None where servers tell it."""
        ...

    @property
    def keepers(self) -> tuple[Key, ...]:
        """Who writes the parts of a checkpoint."""
        ...

    def ready(self, task: TaskLife, version: int) -> None:
        """A process is built; a replica holds ``version``."""
        ...

    def concerns_all(self, worker: TaskLife) -> bool:
        """Whether everybody has to go back, or agree again, since this worker is lost."""
        ...

    def lost_early(self, worker: TaskLife) -> None:
        """A worker is lost before the job has begun."""
        ...

    def begin_again(self) -> None:
        """A worker is lost that concerns all, or a server; a new generation has to agree on a version."""
        ...

    def loaded(self, server: TaskLife, said: Loaded) -> None:
        """A server has read its part."""
        ...

    def halted(self, worker: TaskLife, said: Halted) -> None:
        """A replica stands still."""
        ...

    def takes_part(self, task: TaskLife) -> bool:
        """Whether it counts that this task is attached."""
        ...

    def still_attaching(self) -> bool:
        """Whether a recovery waits for somebody who is not attached yet."""
        ...

    def complete(self) -> Restored:
        """All are attached: what they go on from. Who came too late for that may be taken in."""
        ...
