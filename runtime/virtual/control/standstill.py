"""Paused tasks on the virtual clock: long pauses end in a loss, and starts during one are late."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

from runtime.core.recovery.automaton import Recovery
from runtime.core.recovery.task import REACHABLE
from runtime.virtual.clock import MESSAGE, TIMER, Clock
from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import Machines
from strategies.protocol import NodeId


@final
class Standstill:
    """Tracks pauses; ``give_up(task, incarnation)`` is called when a lease expires, ``away`` holds lost servers."""

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        machines: Machines | None,
        recovery: Recovery,
        *,
        lease_s: float,
        away: set[int],
        give_up: Callable[[str, int], None],
    ) -> None:
        self.clock, self.costs, self.machines, self.recovery = clock, costs, machines, recovery
        self.lease_s, self.away, self.give_up = lease_s, away, give_up

    def watch(self, task: str) -> None:
        """Pause a task from now on, without heartbeats: after its lease it counts as lost."""
        if self.machines is not None and self.lease_s < math.inf:
            since_s = self.machines.paused_since_s[task]
            self.clock.at(since_s + self.lease_s, TIMER, self._look, task, since_s, self.living(task))

    def _look(self, task: str, since_s: float, living: int | None) -> None:
        assert self.machines is not None
        if self.machines.paused_since_s.get(task) == since_s and living is not None:
            self.give_up(task, living)

    def living(self, name: str) -> int | None:
        """The running incarnation of a task; None if there is none."""
        task = self.recovery.tasks[NodeId.parse(name)]
        lost = task.role == "server" and task.id in self.away
        return task.incarnation if task.state in REACHABLE and not lost else None

    def starts_late(self, task: str, more_s: float, again: Callable[[], None]) -> bool:
        """Whether the task is or was paused while it started; ``again()`` is called when it may be ready.

        It needs its launch and ``more_s`` from when it continues.
        """
        if self.machines is None:
            return False
        if task in self.machines.paused_since_s:
            self.machines.awake(task, again)
            return True
        resumed_s = self.machines.resumed_s.get(task, -math.inf)
        ready_s = resumed_s + self.costs.launch_s + more_s + self.costs.control_s
        if ready_s > self.clock.now:
            self.clock.at(ready_s, MESSAGE, again)
        return ready_s > self.clock.now
