"""Persistence: the next iteration will be as fast as the last."""

from __future__ import annotations

from typing import final

from predictors.base import Record, nothing_known


@final
class LastValue:
    """What every other predictor must beat."""

    def __init__(self) -> None:
        self.records = 0
        self._last: float | None = None

    def update(self, record: Record) -> None:
        """Remember it."""
        self.records += 1
        self._last = record.speed

    def predict(self, cpu: float = 1.0, memory: float = 1.0) -> float:
        """The last speed."""
        if self._last is None:
            raise nothing_known()
        return self._last
