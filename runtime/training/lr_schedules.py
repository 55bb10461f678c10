"""Learning-rate schedules: factors of the configured rate as a function of the job's samples (pure).

They count samples and not updates, since an asynchronous job makes many more updates from the same samples: counting
updates would train the compared strategies with different rates on the same data. Samples that a lossy method discards
count, too: the schedule follows the job's progress through its data, and ends with its last epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import MISSING, dataclass, fields
from itertools import pairwise
from math import cos, inf, pi
from typing import final

UNITS = ("samples", "epochs")


class Schedule(ABC):
    """A schedule: hyper-parameters as dataclass fields, the rule in :meth:`lr_at`."""

    @abstractmethod
    def lr_at(self, samples_passed: int) -> float:
        """Factor of the learning rate for the update after ``samples_passed`` samples, applied or discarded."""


@final
@dataclass(frozen=True, kw_only=True)
class Constant(Schedule):
    """The configured rate throughout."""

    def lr_at(self, samples_passed: int) -> float:
        return 1.0


@final
@dataclass(frozen=True, kw_only=True)
class Step(Schedule):
    """Multiplies the rate by ``gamma`` at every milestone.

    Attributes:
        milestones: ascending, in ``unit``.
        gamma: more than 0.
        unit: ``samples`` or ``epochs``.
        epoch_samples: samples of an epoch; needed for ``epochs``.
    """

    milestones: tuple[float, ...] | list[float]
    gamma: float = 0.1
    unit: str = "samples"
    epoch_samples: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.milestones, tuple | list):
            raise ValueError(f"milestones={self.milestones}: must be a list of numbers")
        for milestone in self.milestones:
            _check("milestones", milestone, above=0)
        if any(first >= second for first, second in pairwise(self.milestones)):
            raise ValueError(f"milestones={list(self.milestones)}: must ascend")
        _check("gamma", self.gamma, above=0)
        _check_unit(self.unit, self.epoch_samples)

    def lr_at(self, samples_passed: int) -> float:
        """``gamma`` to the power of the number of milestones reached."""
        position = samples_passed / _unit_samples(self.unit, self.epoch_samples)
        return float(self.gamma ** bisect_right(self.milestones, position))


@final
@dataclass(frozen=True, kw_only=True)
class WarmupCosine(Schedule):
    """Linear warm-up, then half a cosine down to the end, constant afterwards.

    Source: Goyal et al., "Accurate, large minibatch SGD", 2017 (gradual warm-up); Loshchilov and Hutter, "SGDR", ICLR
    2017 (one cosine without restarts).

    Attributes:
        total: end of the cosine, in ``unit``.
        warmup: end of the warm-up, in ``unit``, before ``total``; 0 for none.
        start_frac: factor at the start of the warm-up.
        end_frac: factor from ``total`` on.
        unit: ``samples`` or ``epochs``.
        epoch_samples: samples of an epoch; needed for ``epochs``.
    """

    total: float
    warmup: float = 0.0
    start_frac: float = 0.1
    end_frac: float = 0.0
    unit: str = "samples"
    epoch_samples: int | None = None

    def __post_init__(self) -> None:
        _check("total", self.total, above=0)
        _check("warmup", self.warmup)
        if self.warmup >= self.total:
            raise ValueError(f"warmup={self.warmup}: must be less than total ({self.total})")
        _check("start_frac", self.start_frac)
        _check("end_frac", self.end_frac)
        _check_unit(self.unit, self.epoch_samples)

    def lr_at(self, samples_passed: int) -> float:
        position = samples_passed / _unit_samples(self.unit, self.epoch_samples)
        if position < self.warmup:
            return self.start_frac + (1 - self.start_frac) * position / self.warmup
        done = min(1.0, (position - self.warmup) / (self.total - self.warmup))
        return self.end_frac + (1 - self.end_frac) * (1 + cos(pi * done)) / 2


@final
@dataclass(frozen=True, kw_only=True)
class InversePower(Schedule):
    """Falls like a power of the samples.

    The factor is (1 + samples / offset) to the power of minus ``exponent``.
    Exponent 0.5 is the C / sqrt(t) of stochastic gradient descent. With t updates of B samples, ``offset`` tau0 * B and
    the rate tau0 ** -kappa it is (tau0 + t) ** -kappa (Robbins and Monro 1951; Hoffman et al., NIPS 2010, equation 7).

    Attributes:
        offset: after how much the rate has fallen to 2 ** -exponent, in ``unit``; more than 0.
        exponent: more than 0; for 0.5 < exponent <= 1 the sum of the rates diverges, and the sum of squares converges.
        unit: ``samples`` or ``epochs``.
        epoch_samples: samples of an epoch; needed for ``epochs``.
    """

    offset: float
    exponent: float = 0.5
    unit: str = "samples"
    epoch_samples: int | None = None

    def __post_init__(self) -> None:
        _check("offset", self.offset, above=0)
        _check("exponent", self.exponent, above=0)
        _check_unit(self.unit, self.epoch_samples)

    def lr_at(self, samples_passed: int) -> float:
        position = samples_passed / _unit_samples(self.unit, self.epoch_samples)
        return float((1 + position / self.offset) ** -self.exponent)


SCHEDULES: dict[str, type[Schedule]] = {
    "constant": Constant,
    "step": Step,
    "warmup_cosine": WarmupCosine,
    "inverse_power": InversePower,
}


def make_schedule(name: str, *, epoch_samples: int | None = None, **fields_of_schedule: object) -> Schedule:
    """The schedule ``name`` (a key of ``SCHEDULES``); raises ``ValueError`` naming the wrong field.

    ``epoch_samples``, the samples per epoch, is needed only by schedules with ``unit="epochs"``. A field that is None
    counts as not given.
    """
    if name not in SCHEDULES:
        raise ValueError(f"name={name}: must be one of {', '.join(SCHEDULES)}")
    given = {field: value for field, value in fields_of_schedule.items() if value is not None}
    known = {field.name: field for field in fields(SCHEDULES[name])}  # type: ignore[arg-type]
    for field in given:
        if field not in known:
            raise ValueError(
                f"{field}: is no field of {name} (it has {', '.join(known) or 'none'}); null leaves it out"
            )
    for field in known:
        if field not in given and known[field].default is MISSING:
            raise ValueError(f"{field}: must be set for {name}")
    if "epoch_samples" in known:
        given["epoch_samples"] = epoch_samples
    return SCHEDULES[name](**given)


def _check(name: str, value: object, *, above: float = -inf) -> None:
    """Raise ``ValueError`` unless it is a finite number of at least 0, and above ``above``."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (0 <= value < inf and value > above):  # type: ignore[operator]
        raise ValueError(f"{name}={value}: must be a number, {'more than 0' if above == 0 else 'at least 0'}")


def _check_unit(unit: object, epoch_samples: int | None) -> None:
    if unit not in UNITS:
        raise ValueError(f"unit={unit}: must be one of {', '.join(UNITS)}")
    if unit == "epochs" and (epoch_samples is None or epoch_samples < 1):
        raise ValueError("unit=epochs: the number of samples of an epoch is not known here; use samples")


def _unit_samples(unit: str, epoch_samples: int | None) -> int:
    return epoch_samples if unit == "epochs" and epoch_samples is not None else 1
