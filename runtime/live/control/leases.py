"""Leases: which tasks and agents have been silent for too long (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runtime.core.recovery.states import TaskState
from runtime.core.recovery.task import ALIVE, Key
from runtime.live.control.settings import Settings
from runtime.live.control.tasks import Task
from runtime.live.transport.silence import Listening

NAMED = 4
"""Number of missing tasks that a message names."""


class Leases:
    """Leases of all tasks, which hold the time of their last message, checked every ``period_s``."""

    def __init__(self, tasks: Mapping[Key, Task], settings: Settings) -> None:
        self.tasks, self.settings = tasks, settings
        self.period_s = settings.lease_s / 4
        self.limit_s = settings.start_deadline_s
        """The deadline of a task that is not connected."""
        self._listening = Listening(self.period_s, settings.lease_s, 0.0)

    def begin(self, now_s: float) -> None:
        """Begin: the first check is due in a period."""
        self._listening.restart(now_s)

    def started(self, now_s: float) -> None:
        """The job runs: tasks that start from now on start alone."""
        self.limit_s = self.settings.restart_deadline_s
        self.renew(now_s)

    def renew(self, now_s: float) -> None:
        """Renew all leases now."""
        self._listening.restart(now_s)
        for task in self.tasks.values():
            task.heard_s = now_s

    def overdue(self, now_s: float) -> Iterator[tuple[Task, str]]:
        """Tasks to give up, with reasons; silence while we were stopped ourselves counts for nobody."""
        missed_s = self._listening.missed_s(now_s)
        for task in self.tasks.values():
            task.heard_s = min(now_s, task.heard_s + missed_s)
        for task in list(self.tasks.values()):  # giving one up may launch another
            silence = now_s - task.heard_s
            limit = self.settings.lease_s if self._owes_heartbeats(task) else self.limit_s
            if task.life.state in ALIVE and silence > limit:
                yield task, f"no heartbeat for {silence:.1f} s"

    def _owes_heartbeats(self, task: Task) -> bool:
        starts = task.life.state == TaskState.LAUNCHING
        return task.connected and not (starts and self.settings.starts_silently)

    def not_ready(self, agents: str = "") -> str:
        """A message that the start has taken too long, with the missing agents, or tasks if there are none."""
        clients = [task for task in self.tasks.values() if task.key.role != "server"]
        missing = [task.name for task in clients if task.life.state != TaskState.ATTACHED]
        waiting = agents or ", ".join(missing[:NAMED]) + (" and others" if len(missing) > NAMED else "")
        deadline = f"runtime.start_deadline_s={self.settings.start_deadline_s:g}"
        return f"not ready after {deadline}: {waiting}; see logs/, or allow more on a busy machine"


class AgentLeases:
    """Leases of agents: one that is stopped or hangs forks, kills and reports nobody, and no connection is closed."""

    def __init__(self, lease_s: float, start_deadline_s: float, period_s: float) -> None:
        """``start_deadline_s``: the silence of one that starts, and cannot speak; ``period_s``: between two looks."""
        self.lease_s, self.start_deadline_s = lease_s, start_deadline_s
        self._listening = Listening(period_s, lease_s, 0.0)
        self._heard_s: dict[Key, float] = {}
        self._ready: set[Key] = set()

    def started(self, agent: Key, now_s: float) -> None:
        """Its process begins to import what tasks need."""
        self._ready.discard(agent)
        self._heard_s[agent] = now_s

    def ready(self, agent: Key, now_s: float) -> None:
        """It has connected, and sends heartbeats from now on."""
        self._ready.add(agent)
        self._heard_s[agent] = now_s

    def heard(self, agent: Key, now_s: float) -> None:
        """It has said something."""
        self._heard_s[agent] = now_s

    def renew(self, now_s: float) -> None:
        """Renew all leases from now on."""
        self._listening.restart(now_s)
        self._heard_s = dict.fromkeys(self._heard_s, now_s)

    def look(self, now_s: float) -> None:
        """A period has passed, or more if we were stopped ourselves."""
        missed_s = self._listening.missed_s(now_s)
        self._heard_s = {agent: min(now_s, heard_s + missed_s) for agent, heard_s in self._heard_s.items()}

    def why_lost(self, agent: Key, now_s: float) -> str | None:
        """Why it counts as lost; None: it does not."""
        silence_s = now_s - self._heard_s[agent]
        if agent not in self._ready and silence_s > self.start_deadline_s:
            return f"it has not connected within runtime.start_deadline_s={self.start_deadline_s:g}"
        if agent in self._ready and silence_s > self.lease_s:
            return f"no heartbeat for {self.lease_s:g} s; it is stopped or hangs (runtime.lease_s allows more)"
        return None
