"""Exponential moving average: v^(t+1) = a v(t) + (1 - a) v^(t)."""

from __future__ import annotations

from typing import final

from predictors.base import SpeedRecord, nothing_known


@final
class Ema:
    """Follows a lasting change within about 1 / ``alpha`` iterations and smooths anything shorter.

    LB-BSP (SoCC 2020) compares its predictor with an average of a = 0.2. The first record initialises the average.
    """

    def __init__(self, alpha: float = 0.2) -> None:
        self.alpha = alpha
        self.records = 0
        self._mean: float | None = None

    def update(self, record: SpeedRecord) -> None:
        """Fold the record into the average."""
        self.records += 1
        mean = record.speed if self._mean is None else self._mean
        self._mean = self.alpha * record.speed + (1 - self.alpha) * mean

    def predict(self, cpu: float = 1.0, memory: float = 1.0) -> float:
        if self._mean is None:
            raise nothing_known()
        return self._mean
