"""A pause in which no worker begins to compute, the cost of a change of mode; timers (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.protocol import AnyCommand, Compute

TOO_EARLY_S = 1e-3
"""By how much a timer may fire early: a clock may round."""


def is_due(t: float, due_s: float) -> bool:
    """Whether a timer fired at ``t`` is the one due at ``due_s``; an earlier one has been replaced."""
    return t >= due_s - TOO_EARLY_S


@final
class Pause:
    """Holds Computes until ``until_s`` (None: no pause); Computes in progress continue."""

    def __init__(self, until_s: float | None = None) -> None:
        self.until_s = until_s
        self.withheld: set[int] = set()

    def hold(self, commands: Iterable[AnyCommand]) -> list[AnyCommand]:
        """The commands without Computes, whose workers wait."""
        commands = list(commands)
        if self.until_s is None:
            return commands
        self.withheld |= {command.worker for command in commands if isinstance(command, Compute)}
        return [command for command in commands if not isinstance(command, Compute)]

    def gone(self, worker: int) -> None:
        """Remove a worker whose process is lost: when it returns, the gate decides again."""
        self.withheld.discard(worker)

    def ends(self, t: float) -> list[int]:
        """Workers that may compute now, if the pause is over at time ``t``."""
        if self.until_s is None or not is_due(t, self.until_s):
            return []
        workers, self.until_s, self.withheld = sorted(self.withheld), None, set()
        return workers
