"""Who has been silent for too long (pure but for the tasks, which know when they were heard)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runtime.core.recovery.states import TaskState
from runtime.core.recovery.task import ALIVE, Key
from runtime.live.control.settings import Settings
from runtime.live.control.tasks import Task

NAMED = 4
"""Of those who are missing at the start."""


class Leases:
    """Looked at every ``period_s``."""

    def __init__(self, tasks: Mapping[Key, Task], settings: Settings) -> None:
        self.tasks, self.settings = tasks, settings
        self.period_s = settings.lease_s / 4
        self.limit_s = settings.start_deadline_s
        """For who is not connected."""
        self._looked_s = 0.0

    def begin(self, now_s: float) -> None:
        """The first look comes a period from now."""
        self._looked_s = now_s

    def started(self, now_s: float) -> None:
        """The job runs: who starts from now on, starts alone."""
        self.limit_s = self.settings.restart_deadline_s
        self.renew(now_s)

    def renew(self, now_s: float) -> None:
        """What was heard before was heard now."""
        self._looked_s = now_s
        for task in self.tasks.values():
            task.heard_s = now_s

    def overdue(self, now_s: float) -> Iterator[tuple[Task, str]]:
        """Whom to give up, and why. If we were stopped ourselves (a suspended machine), nobody else is to blame."""
        if now_s - self._looked_s > self.settings.lease_s / 2 + self.period_s:
            self.renew(now_s)
        self._looked_s = now_s
        for task in self.tasks.values():
            silence = now_s - task.heard_s
            limit = self.settings.lease_s if task.connected else self.limit_s
            if task.life.state in ALIVE and silence > limit:
                yield task, f"no heartbeat for {silence:.1f} s"

    def not_ready(self) -> str:
        """For people: the start has taken too long, and who is missing; servers are known by whom they keep waiting."""
        clients = [task for task in self.tasks.values() if task.key.role != "server"]
        missing = [task.name for task in clients if task.life.state != TaskState.ATTACHED]
        waiting = ", ".join(missing[:NAMED]) + (" and others" if len(missing) > NAMED else "")
        deadline = f"runtime.start_deadline_s={self.settings.start_deadline_s:g}"
        return f"not ready after {deadline}: {waiting}; see logs/, or allow more on a busy machine"
