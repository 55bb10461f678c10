"""Predictors foresee resources, iteration times and stragglers; pure, like the strategies that ask them."""

from predictors.arx import Arx
from predictors.asking import foresee
from predictors.base import Record, SpeedPredictor
from predictors.by_speed import SPEED_PREDICTORS, BySpeed, speed_predictor
from predictors.ema import Ema
from predictors.fixed_duration import FixedDuration
from predictors.last_value import LastValue
from predictors.narx import Narx
from predictors.nvrx import Nvrx
from predictors.oracle import Oracle, Planned
from predictors.registry import STRAGGLER_PREDICTORS, straggler_predictor
from predictors.stragglers import Seen, StragglerPredictor
from predictors.twice_median import TwiceMedian

__all__ = [
    "SPEED_PREDICTORS",
    "STRAGGLER_PREDICTORS",
    "Arx",
    "BySpeed",
    "Ema",
    "FixedDuration",
    "LastValue",
    "Narx",
    "Nvrx",
    "Oracle",
    "Planned",
    "Record",
    "Seen",
    "SpeedPredictor",
    "StragglerPredictor",
    "TwiceMedian",
    "foresee",
    "speed_predictor",
    "straggler_predictor",
]
