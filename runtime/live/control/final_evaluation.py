"""The evaluation of the final parameters, outside the job's time: how long the end of a run waits for it (pure).

Times are seconds of the loop's clock.
"""

from __future__ import annotations

from math import inf
from typing import Literal, assert_never

from runtime.api import INTERRUPTED_S

EVALUATOR_JOINS_S = 5.0
"""How long the end waits for an evaluator that is about to connect: after a recovery it is the last to do so."""
FINAL_EVALUATION_S = 60.0
"""How long the end waits for the result: the evaluator runs at a lower priority, so on a busy machine it takes long."""
PATIENCE = 3.0
"""Or so many times the longest evaluation before, if that is more: another one may be in progress."""


class FinalEvaluation:
    """Waits for the evaluator, then for its result; gives each up after its time, and ends at once where it must."""

    def __init__(self) -> None:
        self._phase: Literal["joining", "scoring", "done"] = "joining"
        self._until_s: float | None = None
        self._ticket: int | None = None
        self._latest_s = inf
        self._longest_s = 0.0
        self.given_up = False
        """Whether it was not over in time."""

    def look(self, now: float, *, connected: bool, may_come: bool) -> Literal["wait", "order", "done"]:
        """Return the next action of the end; ``order``: have it evaluated, then call :meth:`ordered`.

        ``connected``: there is an evaluator. ``may_come``: if there is none, one may still come.
        """
        match self._phase:
            case "joining":
                if connected:
                    return "order"
                if self._until_s is None:
                    self._until_s = now + EVALUATOR_JOINS_S
                return "wait" if may_come and self._in_time(now) else "done"
            case "scoring":
                return "wait" if self._in_time(now) else "done"
            case "done":
                return "done"
        assert_never(self._phase)

    def _in_time(self, now: float) -> bool:
        if self._until_s is None or now < min(self._until_s, self._latest_s):
            return True
        self._phase, self.given_up = "done", True
        return False

    @property
    def patience_s(self) -> float:
        """How long the result is waited for."""
        return max(FINAL_EVALUATION_S, PATIENCE * self._longest_s)

    def took(self, seconds: float) -> None:
        """An evaluation before the final one is there, so long after it was ordered."""
        self._longest_s = max(self._longest_s, seconds)

    def ordered(self, ticket: int, now: float) -> None:
        """The evaluator has the order with this ticket."""
        self._phase, self._ticket = "scoring", ticket
        self._until_s = now + self.patience_s

    def hurry(self, now: float) -> None:
        """The user wants the job to end: wait for no longer than ``INTERRUPTED_S`` from now on."""
        self._latest_s = min(self._latest_s, now + INTERRUPTED_S)

    def answered(self, ticket: int) -> bool:
        """Whether a result is for the final parameters, which then are evaluated."""
        if self._phase != "scoring" or ticket != self._ticket:
            return False
        self._phase = "done"
        return True

    def void(self) -> None:
        """Forget the order, since its result will not arrive any more."""
        if self._phase == "scoring":
            self._phase = "done"
