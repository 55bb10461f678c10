"""A pause in which nobody begins to compute (pure): what it costs to go over to another way of training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.nodes.timers import is_due
from strategies.protocol import AnyCommand, Compute


@final
class Pause:
    """Withholds Computes until ``until_s`` (None: there is no pause); what is being computed goes on."""

    def __init__(self, until_s: float | None = None) -> None:
        self.until_s = until_s
        self.withheld: set[int] = set()

    def hold(self, commands: Iterable[AnyCommand]) -> list[AnyCommand]:
        """All but the Computes, whose workers wait."""
        commands = list(commands)
        if self.until_s is None:
            return commands
        self.withheld |= {command.worker for command in commands if isinstance(command, Compute)}
        return [command for command in commands if not isinstance(command, Compute)]

    def gone(self, worker: int) -> None:
        """Its process is lost: if it returns the gate lets it go anew."""
        self.withheld.discard(worker)

    def ends(self, t: float) -> list[int]:
        """Who may compute now, if the pause is over at time ``t``."""
        if self.until_s is None or not is_due(t, self.until_s):
            return []
        workers, self.until_s, self.withheld = sorted(self.withheld), None, set()
        return workers
