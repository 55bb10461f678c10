"""Predictors of resource use, iteration times and stragglers. They are pure, like the strategies that call them."""

from predictors.arx import Arx
from predictors.backtest import backtest
from predictors.base import SpeedPredictor, SpeedRecord
from predictors.by_speed import SPEED_PREDICTORS, BySpeed, prepare, speed_predictor
from predictors.ema import Ema
from predictors.fixed_duration import FixedDuration
from predictors.last_value import LastValue
from predictors.narx import Narx
from predictors.nvrx import Nvrx
from predictors.oracle import Oracle, PlannedWindow
from predictors.registry import STRAGGLER_PREDICTORS, straggler_predictor
from predictors.stragglers import Observation, StragglerPredictor
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
    "Observation",
    "Oracle",
    "PlannedWindow",
    "SpeedPredictor",
    "SpeedRecord",
    "StragglerPredictor",
    "TwiceMedian",
    "backtest",
    "prepare",
    "speed_predictor",
    "straggler_predictor",
]
