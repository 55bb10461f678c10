"""What detectors tell: the interfaces by which the other parts look at them.

A detector listens to events (``observe_event``) and answers one of these questions; what it goes by is its own affair.
Others are more than a question: :class:`strategies.monitoring.detector.StragglerDetector` (AntDT's two windows),
:class:`strategies.monitoring.forecast.Forecast` (coming speeds).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Protocol, runtime_checkable


@runtime_checkable
class ExpectsTimes(Protocol):
    """How long the coming iteration of every worker will take."""

    def expected_s(self, worker: int, t: float) -> float | None:
        """Seconds of the worker's own part, as expected at time ``t``; None where nothing is known."""
        ...


@runtime_checkable
class FlagsStragglers(Protocol):
    """Who is a straggler at the moment.

    ``flagged`` and ``left_out`` (those whom to wait for costs more than they contribute) are sets that the detector
    keeps: they can be held and looked at again later. ``restarted`` are the nodes that are restarted on purpose, with
    their flags: a set that somebody else keeps.
    """

    flagged: AbstractSet[int]
    left_out: AbstractSet[int]
    restarted: AbstractSet[str]
