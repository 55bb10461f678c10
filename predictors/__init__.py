"""Predictors foresee resources and iteration times; pure, like the strategies that ask them."""

from predictors.arx import Arx
from predictors.base import Record, SpeedPredictor
from predictors.ema import Ema
from predictors.last_value import LastValue
from predictors.narx import Narx

SPEED_PREDICTORS = ("narx", "arx", "ema", "last")


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


__all__ = ["SPEED_PREDICTORS", "Arx", "Ema", "LastValue", "Narx", "Record", "SpeedPredictor", "speed_predictor"]
