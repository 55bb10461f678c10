"""The evaluations that the evaluator was asked for, by ticket; the last evaluates the final parameters (pure)."""

from __future__ import annotations

from itertools import count
from typing import Literal, NamedTuple

from runtime.live.control.final_evaluation import FinalEvaluation
from runtime.live.transport.auxiliaries import EVALUATOR


class Asked(NamedTuple):
    """When an evaluation was ordered, in seconds of the loop's clock, and of which version."""

    at_s: float
    version: int
    final: bool = False
    """Whether it evaluates the final parameters, outside the job's time."""


class LiveEvaluations:
    """Evaluations in progress. An answer counts once, and only if nothing has voided its order."""

    def __init__(self) -> None:
        self._numbers = count()
        self._asked: dict[int, Asked] = {}
        self._final = FinalEvaluation()

    def ticket(self) -> int:
        """The ticket of the next order."""
        return EVALUATOR.ticket(next(self._numbers))

    def ordered(self, ticket: int, asked: Asked) -> None:
        """The evaluator has the order with this ticket."""
        self._asked[ticket] = asked
        if asked.final:
            self._final.ordered(ticket, asked.at_s)

    def answered(self, ticket: int) -> Asked | None:
        """Return the request that a result answers; None if nobody waits for it any more."""
        asked = self._asked.pop(ticket, None)
        return asked if asked is None else asked._replace(final=self._final.answered(ticket))

    def took(self, seconds: float) -> None:
        """An evaluation before the final one is there, so long after it was ordered."""
        self._final.took(seconds)

    def hurry(self, now: float) -> None:
        """The user wants the job to end, see :meth:`FinalEvaluation.hurry`."""
        self._final.hurry(now)

    @property
    def patience_s(self) -> float:
        """How long the result of the final one is waited for."""
        return self._final.patience_s

    @property
    def given_up(self) -> bool:
        """Whether the final one was not over in time."""
        return self._final.given_up

    def void(self) -> None:
        """Nothing in progress will arrive any more, the final one included."""
        self._asked.clear()
        self._final.void()

    def look(self, now: float, *, connected: bool, may_come: bool) -> Literal["wait", "order", "done"]:
        """Return the next action of the job's end at this time, see :meth:`FinalEvaluation.look`."""
        return self._final.look(now, connected=connected, may_come=may_come)
