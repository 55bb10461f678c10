"""Which deaths a run survives (pure)."""

from __future__ import annotations

from typing import final

from runtime.core.recovery.rules import Rules
from runtime.core.recovery.task import TaskLife


@final
class Limits:
    """Counts deaths against the rules. A text that is returned says why the run cannot continue; None: it can."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._restarts = 0
        self._losses = 0

    # ---- of all tasks together ---------------------------------------------------------------------------------------

    def lost(self, task: TaskLife, reason: str) -> str | None:
        """Count the loss of a worker or server; others are no losses of the job."""
        if task.role not in ("worker", "server"):
            return None
        self._losses += 1
        most = self.rules.max_losses
        if most is None or self._losses <= most:
            return None
        return f"{task.name} is lost ({reason}), and max_losses={most} is used up"

    def may_restart(self) -> bool:
        """Count a death after which a task would start again; whether it does."""
        self._restarts += 1
        return self.rules.max_restarts is None or self._restarts <= self.rules.max_restarts

    def used_up(self, task: TaskLife, reason: str) -> str:
        """The run needs a task that may not restart."""
        return f"{task.name} is gone ({reason}) and runtime.max_restarts={self.rules.max_restarts} is used up"

    # ---- of one task -------------------------------------------------------------------------------------------------

    def inseparable(self, task: TaskLife, reason: str) -> str | None:
        """The others may not be able to continue without it, or without its process."""
        if task.role != "worker" or not self.rules.inseparable:
            return None
        cannot = "topology.collective=ddp cannot continue without it; topology.collective=ring can"
        return f"{task.name} is gone ({reason}), and {cannot}"

    def is_futile(self, task: TaskLife) -> bool:
        """Whether it dies for the last time before it has done any useful work."""
        limit = self.rules.max_futile
        return limit is not None and task.futile + (not task.useful) >= limit

    def futile(self, task: TaskLife, reason: str) -> str:
        """The run needs a task that only dies."""
        return f"{task.name} died {self.rules.max_futile} times before doing any useful work: {reason}"

    def may_find_room(self, task: TaskLife) -> bool:
        """Whether its device may have memory soon: its predecessor is gone, and so many have not tried yet.

        Until it has computed once: the first gradient takes more memory than all before it.
        """
        limit = self.rules.max_crowded
        tries = limit is None or task.crowded < limit
        return tries and task.incarnation > 0 and not task.useful
