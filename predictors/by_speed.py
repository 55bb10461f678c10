"""Stragglers by predicted times: whose coming iteration is foreseen to take longer than the fastest one's."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import final

from predictors.arx import Arx
from predictors.base import Record, SpeedPredictor
from predictors.checks import check_number
from predictors.ema import Ema
from predictors.last_value import LastValue
from predictors.narx import Narx
from predictors.stragglers import STRAGGLER_FRAC, Seen, deviations

SPEED_PREDICTORS = ("narx", "arx", "ema", "last")
ROUNDING = 1e-9
"""A time that went through a speed may be a last bit too long: that alone makes nobody a straggler."""


def speed_predictor(name: str, ema_alpha: float = 0.2) -> SpeedPredictor:
    """A fresh one of ``SPEED_PREDICTORS``; ``ema_alpha`` is the weight of the newest record of ``ema``."""
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


@final
@dataclass
class BySpeed:
    """A speed predictor per worker (in iterations per second); who is foreseen to be slow is tagged.

    Source: STAR, section IV-A, tags whose predicted time deviates from the fastest one's by more than 20 %. The
    coming iteration's resources are taken to be those of the last one (persistence). With ``last`` this is the simplest
    prediction there is: as slow as now.

    Attributes:
        speed: one of ``SPEED_PREDICTORS``.
        tolerance_frac: part of the fastest worker's predicted time by which a straggler takes longer.
        alpha: weight of the newest record, for ``ema`` (LB-BSP's comparison has 0.2).
    """

    speed: str
    _: KW_ONLY
    tolerance_frac: float = STRAGGLER_FRAC
    alpha: float = 0.2

    def __post_init__(self) -> None:
        """Check the fields."""
        check_number("tolerance_frac", self.tolerance_frac, least=0.0)
        check_number("alpha", self.alpha, above=0.0, most=1.0)
        speed_predictor(self.speed)
        self._of: dict[int, SpeedPredictor] = {}
        self._last: dict[int, Seen] = {}
        self._foreseen_s: dict[int, float] = {}

    def update(self, seen: Seen) -> None:
        """One more record of its worker."""
        of = self._of.setdefault(seen.worker, speed_predictor(self.speed, self.alpha))
        of.update(Record(1.0 / seen.iter_s, seen.cpu, seen.memory))
        self._last[seen.worker] = seen
        self._foreseen_s.pop(seen.worker, None)

    def gone(self, worker: int) -> None:
        """Forget it."""
        for known in (self._of, self._last, self._foreseen_s):
            known.pop(worker, None)

    def seconds(self) -> dict[int, float]:
        """The predicted time of the coming iteration, by worker."""
        for worker, seen in self._last.items():
            if worker not in self._foreseen_s:
                self._foreseen_s[worker] = 1.0 / self._of[worker].predict(seen.cpu, seen.memory)
        return self._foreseen_s

    def tags(self, t: float) -> frozenset[int]:
        """Whose predicted time is too long."""
        bound = self.tolerance_frac + ROUNDING
        return frozenset(worker for worker, frac in deviations(self.seconds()).items() if frac > bound)
