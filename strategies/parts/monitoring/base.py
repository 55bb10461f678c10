"""The interfaces by which other parts query detectors.

A detector observes events (``observe_event``) and answers one of these questions by a rule of its own. Two detectors
are queried by their class: :class:`strategies.antdt.detector.StragglerDetector` (AntDT's two windows) and
:class:`strategies.lb_bsp.forecast.Forecast` (predicted speeds).
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol, runtime_checkable

from strategies.protocol import NodeId


@runtime_checkable
class ExpectsTimes(Protocol):
    """A detector that predicts the time of every worker's next iteration."""

    def expected_s(self, worker: int, t: float) -> float | None:
        """Expected seconds of the worker's own part at time ``t``; None if nothing is known."""
        ...


@runtime_checkable
class FlagsStragglers(Protocol):
    """A detector that flags current stragglers.

    ``flagged`` and ``left_out`` (stragglers that cost more waiting than they contribute) are sets that the detector
    updates in place, so that others can keep references. ``restarted`` are the nodes that a schedule restarts on
    purpose, which keep their flags: a set that the schedule updates.
    """

    flagged: AbstractSet[int]
    left_out: AbstractSet[int]
    restarted: AbstractSet[NodeId]


class Outlook(NamedTuple):
    """Predicted seconds of the workers' own iterations, in their order, and who is predicted to straggle."""

    times_s: tuple[float, ...]
    tagged: frozenset[int]


@runtime_checkable
class PredictsStragglers(Protocol):
    """A detector that predicts iteration times over a horizon, and stragglers by them."""

    def outlook(self, workers: Sequence[int], t: float, lead_s: float = 0.0) -> Outlook | None:
        """The prediction at time ``t`` for what ``workers`` do ``lead_s`` later; None: nothing to decide by."""
        ...


@runtime_checkable
class MeasuresNoise(Protocol):
    """A detector that knows the gradient noise scale."""

    def phi_of(self, batch_samples: float) -> tuple[float, float] | None:
        """The noise scale in samples at updates of ``batch_samples``, and how many updates old the measurement is.

        None: nothing is known yet.
        """
        ...
