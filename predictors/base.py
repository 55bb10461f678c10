"""What a predictor of speeds is told and asked."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Record(NamedTuple):
    """One finished iteration of one worker: its ``speed`` in samples per second and what it then had.

    ``cpu`` (cores) and ``memory`` (bytes) are whatever telemetry says, in any unit that stays the same; 1 where there
    is none.
    """

    speed: float
    cpu: float = 1.0
    memory: float = 1.0


class SpeedPredictor(Protocol):
    """Foresees the speed of one worker, one iteration ahead."""

    @property
    def records(self) -> int:
        """How many iterations it has been told of."""
        ...

    def update(self, record: Record) -> None:
        """The next iteration has ended."""
        ...

    def predict(self, cpu: float = 1.0, memory: float = 1.0) -> float:
        """Samples per second of the coming iteration with so much ``cpu`` and ``memory``.

        Raises:
            ValueError: nothing has been told yet.
        """
        ...


def nothing_known() -> ValueError:
    """What everyone raises who is asked before being told."""
    return ValueError("nothing to predict from: no iteration has been recorded")
