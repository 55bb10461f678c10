"""Periodic decisions about nodes, one action after another (AntDT's Controller), pauses and timers (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

from reading.ranges import check_number
from strategies.parts.hooks import Deciding, Learning, Tick
from strategies.protocol import AnyCommand, AnyEvent, Compute, Restored, Scheduling, ServerLost, Started, Wake, Woke

TOO_EARLY_S = 1e-3
"""Seconds that a timer may fire early: a clock may round."""
MIN_PERIOD_S = 0.001
"""Shortest time between two decisions; with less, a job would do nothing else."""


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

    def forget(self, worker: int) -> None:
        """Remove a worker whose process is lost: when it returns, the gate decides again."""
        self.withheld.discard(worker)

    def ends(self, t: float) -> list[int]:
        """Workers that may compute now, if the pause is over at time ``t``."""
        if self.until_s is None or not is_due(t, self.until_s):
            return []
        workers, self.until_s, self.withheld = sorted(self.withheld), None, set()
        return workers


@final
class Controller:
    """Decides every ``decide_every_s`` seconds of the job, except while it is paused for a lost server."""

    def __init__(self, decide_every_s: float, detectors: Sequence[Learning], actions: Sequence[Deciding]) -> None:
        check_number("decide_every_s", decide_every_s, least=MIN_PERIOD_S)
        self.decide_every_s, self.detectors, self.actions = decide_every_s, detectors, actions

    def start(self, started: Started) -> None:
        self._pending_s = self._due_s = 0.0
        self._halted = False
        self._decided = ""

    def observe_event(self, event: AnyEvent) -> None:
        """Keep the scheduler's expectation, and whether the job is paused."""
        match event:
            case Scheduling(pending_s=pending_s):
                self._pending_s = pending_s
            case ServerLost(holding=True):
                self._halted = True
            case Restored():
                self._halted = False

    def then(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Decide when the timer fires.

        After a restore the timer is set again, because it may have fired during the pause. If it had not, it fires too
        early and is ignored.
        """
        match event:
            case Woke(tag="decide") if is_due(event.t, self._due_s) and not self._halted:
                return self._decide(event.t)
            case Started() | Restored():
                return [self._set_timer(event.t)]
            case _:
                return ()

    def _set_timer(self, t: float) -> Wake:
        self._due_s = t + self.decide_every_s
        return Wake(at_s=self._due_s, tag="decide")

    def _decide(self, t: float) -> list[AnyCommand]:
        commands: list[AnyCommand] = [self._set_timer(t)]
        tick = Tick(t=t, pending_s=self._pending_s, said=[], restarted=[])
        for detector in self.detectors:
            detector.learn()
        for action in self.actions:
            commands += action.decide(tick)
        self._decided = "; ".join(tick.said) or "NONE"
        return commands

    def log_state(self) -> dict[str, float | int | str]:
        return {"decided": self._decided}
