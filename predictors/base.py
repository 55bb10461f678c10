"""The interface of speed predictors: their input and output."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class SpeedRecord(NamedTuple):
    """One finished iteration of one worker: its ``speed`` in samples per second and the resources it had.

    ``cpu`` (cores) and ``memory`` (bytes) come from telemetry, in any unit as long as it stays the same; 1 where there
    is no telemetry.
    """

    speed: float
    cpu: float = 1.0
    memory: float = 1.0


class SpeedPredictor(Protocol):
    """Predicts the speed of one worker, one iteration ahead."""

    @property
    def records(self) -> int:
        """Number of iterations received so far."""
        ...

    def update(self, record: SpeedRecord) -> None:
        """Add the iteration that has just ended."""
        ...

    def predict(self, cpu: float = 1.0, memory: float = 1.0) -> float:
        """Predicted speed (samples per second) of the next iteration, given its ``cpu`` and ``memory``.

        Raises:
            ValueError: no iteration has been recorded yet.
        """
        ...


def nothing_known() -> ValueError:
    """The error of a predictor that is asked before it has any record."""
    return ValueError("nothing to predict from: no iteration has been recorded")
