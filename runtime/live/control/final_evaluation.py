"""The evaluation of the final parameters, outside the job's time: what the end of a run waits for, and how long (pure).

Times are seconds of the loop's clock.
"""

from __future__ import annotations

from typing import Literal, assert_never

EVALUATOR_JOINS_S = 5.0
"""How long the end waits for an evaluator that is about to connect: after a recovery it is the last to do so."""
FINAL_EVALUATION_S = 60.0
"""How long the end waits for the result: the evaluator runs at a lower priority, so on a busy machine it takes long."""


class FinalEvaluation:
    """Waits for the evaluator, then for its result; gives each up after its time, and ends at once where it must."""

    def __init__(self) -> None:
        self._phase: Literal["joining", "scoring", "done"] = "joining"
        self._until_s: float | None = None
        self._ticket: int | None = None

    def look(self, now: float, *, connected: bool, recovering: bool) -> Literal["wait", "order", "done"]:
        """What the end does at this time; ``order``: have it evaluated, then call :meth:`ordered`.

        ``connected``: there is an evaluator. ``recovering``: if there is none, one may still come.
        """
        match self._phase:
            case "joining":
                if connected:
                    return "order"
                if self._until_s is None:
                    self._until_s = now + EVALUATOR_JOINS_S
                return "wait" if recovering and now < self._until_s else "done"
            case "scoring":
                return "wait" if self._until_s is None or now < self._until_s else "done"
            case "done":
                return "done"
        assert_never(self._phase)

    def ordered(self, ticket: int, now: float) -> None:
        """The evaluator has the order with this ticket."""
        self._phase, self._ticket, self._until_s = "scoring", ticket, now + FINAL_EVALUATION_S

    def answered(self, ticket: int) -> bool:
        """Whether a result is that of the final parameters, which then are evaluated."""
        if self._phase != "scoring" or ticket != self._ticket:
            return False
        self._phase = "done"
        return True

    def void(self) -> None:
        """What was ordered will not arrive any more."""
        if self._phase == "scoring":
            self._phase = "done"
