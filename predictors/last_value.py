"""Persistence: the next iteration is predicted to be as fast as the last."""

from __future__ import annotations

from typing import final

from predictors.base import SpeedRecord, nothing_known


@final
class LastValue:
    """The baseline that every other predictor must beat."""

    def __init__(self) -> None:
        self.records = 0
        self._last: float | None = None

    def update(self, record: SpeedRecord) -> None:
        self.records += 1
        self._last = record.speed

    def predict(self, cpu: float = 1.0, memory: float = 1.0) -> float:
        if self._last is None:
            raise nothing_known()
        return self._last
