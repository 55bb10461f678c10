"""Straggler detection by predicted times: workers with predictions much slower than the fastest worker's are tagged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import ClassVar, final

from predictors.arx import Arx, fit_together
from predictors.base import SpeedPredictor, SpeedRecord
from predictors.ema import Ema
from predictors.last_value import LastValue
from predictors.narx import Narx
from predictors.stragglers import STRAGGLER_FRAC, Observation, deviations, exceeding
from reading.ranges import NonNegativeFloat, PositiveFrac, check_settings

SPEED_PREDICTORS = ("narx", "arx", "ema", "last")


def speed_predictor(name: str, ema_alpha: float = 0.2) -> SpeedPredictor:
    """A new speed predictor by name; ``ema_alpha`` is the weight of the newest record, for ``ema`` only."""
    match name:
        case "narx":
            return Narx()
        case "arx":
            return Arx()
        case "ema":
            return Ema(ema_alpha)
        case "last":
            return LastValue()
    raise ValueError(f"predictor={name}: must be one of {', '.join(SPEED_PREDICTORS)}")


def prepare(predictors: Iterable[SpeedPredictor]) -> None:
    """Fit at once what the next predictions of these would fit one after another, with the same result."""
    linear = [one.linear if isinstance(one, Narx) and one.is_linear else one for one in predictors]
    fit_together([one for one in linear if isinstance(one, Arx) and one.is_due])


@final
@dataclass
class BySpeed:
    """One speed predictor per worker (in iterations per second); workers predicted to be slow are tagged.

    Source: STAR, section IV-A, tags workers whose predicted time deviates from the fastest worker's by more than 20 %.
    The next iteration is assumed to have the last one's resources (persistence). With ``last`` this is
    the simplest prediction possible: as slow as now.

    Attributes:
        speed: one of ``SPEED_PREDICTORS``.
        tolerance_frac: a straggler's predicted time exceeds the fastest worker's by more than this part of it.
        alpha: weight of the newest record, for ``ema`` (LB-BSP compares against 0.2).
    """

    reads_time: ClassVar[bool] = False
    speed: str
    _: KW_ONLY
    tolerance_frac: NonNegativeFloat = STRAGGLER_FRAC
    alpha: PositiveFrac = 0.2

    def __post_init__(self) -> None:
        check_settings(self)
        speed_predictor(self.speed)
        self._predictors = defaultdict[int, SpeedPredictor](partial(speed_predictor, self.speed, self.alpha))
        self._last: dict[int, Observation] = {}
        self._predicted_s: dict[int, float] = {}

    def update(self, observation: Observation) -> None:
        """Add one iteration of its worker."""
        speed = SpeedRecord(1.0 / observation.iter_s, observation.cpu, observation.memory)
        self._predictors[observation.worker].update(speed)
        self._last[observation.worker] = observation
        self._predicted_s.pop(observation.worker, None)

    def forget(self, worker: int) -> None:
        for known in (self._predictors, self._last, self._predicted_s):
            known.pop(worker, None)

    def seconds(self) -> dict[int, float]:
        """Predicted time of the next iteration, in seconds, by worker."""
        due = [worker for worker in self._last if worker not in self._predicted_s]
        prepare(self._predictors[worker] for worker in due)
        for worker in due:
            observation = self._last[worker]
            self._predicted_s[worker] = 1.0 / self._predictors[worker].predict(observation.cpu, observation.memory)
        return self._predicted_s

    def tags(self, t: float) -> frozenset[int]:
        """Workers whose predicted time exceeds the tolerance."""
        return exceeding(deviations(self.seconds()), self.tolerance_frac)
