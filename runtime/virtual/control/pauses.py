"""Paused tasks on the virtual clock: long pauses end in a loss, and starts during one are late."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import final

from runtime.core.recovery import inputs
from runtime.core.recovery.task import REACHABLE
from runtime.virtual.clock import MESSAGE, TIMER
from runtime.virtual.control.priced import PricedRecovery
from runtime.virtual.machines.tenancy import Machines
from strategies.protocol import NodeId


@final
class Pauses:
    """Tracks pauses; a task whose lease expires is silent."""

    def __init__(self, priced: PricedRecovery, machines: Machines | None, lease_s: float) -> None:
        self.recovery, self.clock, self.costs, self.tell, self.drive = priced
        self.machines, self.lease_s = machines, lease_s
        self.away: set[int] = set()
        """Lost servers that have not returned."""

    def watch(self, task: str) -> None:
        """Pause a task from now on, without heartbeats: after its lease it counts as lost."""
        if self.machines is not None and self.lease_s < math.inf:
            since_s = self.machines.paused_since_s[task]
            self.clock.at(since_s + self.lease_s, TIMER, self._look, task, since_s, self.living(task))

    def _look(self, task: str, since_s: float, living: int | None) -> None:
        assert self.machines is not None
        if self.machines.paused_since_s.get(task) == since_s and living is not None:
            self.drive(partial(self._silent, task=task, living=living))

    def _silent(self, t: float, task: str, living: int) -> None:
        if self.living(task) == living:
            self.tell(t, inputs.Silent(NodeId.parse(task), living, f"no heartbeat for {self.lease_s:.1f} s"))

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
