"""Straggler predictors by name, with the settings of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from predictors.by_chance import ByChance
from predictors.by_speed import BySpeed
from predictors.by_work import ByWork
from predictors.change_point import ChangePoint
from predictors.fixed_duration import FixedDuration
from predictors.from_resources import FromResources
from predictors.lstm_ratio import LstmRatio
from predictors.nvrx import Nvrx
from predictors.oracle import Oracle, PlannedWindow
from predictors.outlier import MADS_OF_Z, Outlier
from predictors.stage_frontier import StageFrontier
from predictors.stragglers import StragglerPredictor
from predictors.twice_median import TwiceMedian
from predictors.waits_least import WaitsLeast

_KINDS: dict[str, tuple[Callable[..., StragglerPredictor], tuple[str, ...]]] = {
    "last_value": (partial(BySpeed, "last"), ("tolerance_frac",)),
    "ema": (partial(BySpeed, "ema"), ("tolerance_frac", "alpha")),
    "arx": (partial(BySpeed, "arx"), ("tolerance_frac",)),
    "narx": (partial(BySpeed, "narx"), ("tolerance_frac",)),
    "fixed_duration": (FixedDuration, tuple(field.name for field in fields(FixedDuration))),
    "twice_median": (TwiceMedian, ("factor", "window_iters")),
    "nvrx": (Nvrx, tuple(field.name for field in fields(Nvrx))),
    "megatron": (Outlier, ("mads", "least_frac", "window_iters")),
    "robust_z": (
        partial(Outlier, mads=3.5 * MADS_OF_Z, least_frac=0.0, window_iters=10),
        ("mads", "least_frac", "window_iters"),
    ),
    "greyhound": (ChangePoint, tuple(field.name for field in fields(ChangePoint))),
    "waits_least": (WaitsLeast, ("least_frac",)),
    "stage_frontier": (StageFrontier, ("least_frac",)),
    "by_work": (ByWork, tuple(field.name for field in fields(ByWork))),
    "by_chance": (ByChance, ("probability", "seed")),
    "star": (FromResources, tuple(field.name for field in fields(FromResources))),
    "lstm_ratio": (LstmRatio, tuple(field.name for field in fields(LstmRatio))),
    "oracle": (Oracle, ()),
}
STRAGGLER_PREDICTORS = tuple(_KINDS)
OF_RESOURCES = ("star",)
"""Predictors that need each iteration's resources."""


def settings_of(name: str) -> tuple[str, ...]:
    """Names of the settings of a predictor of ``STRAGGLER_PREDICTORS``; raises ``ValueError`` for any other name."""
    if name not in _KINDS:
        raise ValueError(f"{name}: no such predictor; there are {', '.join(STRAGGLER_PREDICTORS)}")
    return _KINDS[name][1]


def straggler_predictor(
    name: str, settings: Mapping[str, Any] | None = None, plan: Sequence[PlannedWindow] = ()
) -> StragglerPredictor:
    """A new predictor from ``STRAGGLER_PREDICTORS``.

    Args:
        name: key of ``STRAGGLER_PREDICTORS``.
        settings: hyper-parameters that differ from the defaults.
        plan: the disturbance plan; passed to the oracle only.

    Raises:
        ValueError: unknown predictor or setting, or a value out of range.
    """
    known = settings_of(name)
    for key, value in (settings or {}).items():
        if key not in known:
            there = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"{name}:{key}={value}: no such setting of {name}; {there}")
    try:
        return _KINDS[name][0](windows=plan) if name == "oracle" else _KINDS[name][0](**(settings or {}))
    except ValueError as error:
        raise ValueError(f"{name}:{error}") from None
