"""Periodic decisions: detectors learn, then one action after another decides (AntDT's Controller; pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from reading.ranges import check_number
from strategies.parts.hooks import Deciding, Learning, Tick
from strategies.parts.nodes.pause import is_due
from strategies.protocol import AnyCommand, AnyEvent, Restored, Scheduling, ServerLost, Started, Wake, Woke

MIN_PERIOD_S = 0.001
"""Shortest time between two decisions; with less, a job would do nothing else."""


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
