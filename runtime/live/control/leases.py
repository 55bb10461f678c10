"""Leases: which tasks have been silent for too long (pure; tasks hold the time of their last message)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runtime.core.recovery.states import TaskState
from runtime.core.recovery.task import ALIVE, Key
from runtime.live.control.settings import Settings
from runtime.live.control.tasks import Task

NAMED = 4
"""Number of missing tasks that a message names."""


class Leases:
    """Leases of all tasks, checked every ``period_s``."""

    def __init__(self, tasks: Mapping[Key, Task], settings: Settings) -> None:
        self.tasks, self.settings = tasks, settings
        self.period_s = settings.lease_s / 4
        self.limit_s = settings.start_deadline_s
        """The deadline of a task that is not connected."""
        self._looked_s = 0.0

    def begin(self, now_s: float) -> None:
        """Begin: the first check is due in a period."""
        self._looked_s = now_s

    def started(self, now_s: float) -> None:
        """The job runs: tasks that start from now on start alone."""
        self.limit_s = self.settings.restart_deadline_s
        self.renew(now_s)

    def renew(self, now_s: float) -> None:
        """Renew all leases now."""
        self._looked_s = now_s
        for task in self.tasks.values():
            task.heard_s = now_s

    def overdue(self, now_s: float) -> Iterator[tuple[Task, str]]:
        """Tasks to give up, with reasons; none if we were stopped ourselves (a suspended machine)."""
        if now_s - self._looked_s > self.settings.lease_s / 2 + self.period_s:
            self.renew(now_s)
        self._looked_s = now_s
        for task in list(self.tasks.values()):  # giving one up may launch another
            silence = now_s - task.heard_s
            limit = self.settings.lease_s if self._owes_heartbeats(task) else self.limit_s
            if task.life.state in ALIVE and silence > limit:
                yield task, f"no heartbeat for {silence:.1f} s"

    def _owes_heartbeats(self, task: Task) -> bool:
        starts = task.life.state == TaskState.LAUNCHING
        return task.connected and not (starts and self.settings.starts_silently)

    def not_ready(self) -> str:
        """A message that the start has taken too long, with the missing tasks."""
        clients = [task for task in self.tasks.values() if task.key.role != "server"]
        missing = [task.name for task in clients if task.life.state != TaskState.ATTACHED]
        waiting = ", ".join(missing[:NAMED]) + (" and others" if len(missing) > NAMED else "")
        deadline = f"runtime.start_deadline_s={self.settings.start_deadline_s:g}"
        return f"not ready after {deadline}: {waiting}; see logs/, or allow more on a busy machine"
