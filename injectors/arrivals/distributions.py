"""Distributions of sizes and durations, as settings: each by its quantiles, since numpy may change its samplers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol, final, runtime_checkable

from injectors.patterns.fields import check_number


@runtime_checkable
class Distribution(Protocol):
    """Turns uniform draws into its own."""

    def quantile(self, part: float) -> float:
        """The number below which this part of all draws lies; ``part``: 0 or more, below 1."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class Constant(Distribution):
    """Always the same value."""

    value: float

    def __post_init__(self) -> None:
        check_number("value", self.value)

    def quantile(self, part: float) -> float:
        return self.value


@final
@dataclass(frozen=True, kw_only=True)
class Uniform(Distribution):
    """Any number from ``low`` to ``high``."""

    low: float
    high: float

    def __post_init__(self) -> None:
        check_number("low", self.low)
        check_number("high", self.high, least=self.low)

    def quantile(self, part: float) -> float:
        return self.low + (self.high - self.low) * part


@final
@dataclass(frozen=True, kw_only=True)
class UniformWhole(Distribution):
    """Whole numbers from ``low`` to ``high``, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        check_number("low", self.low)
        check_number("high", self.high, least=self.low)

    def quantile(self, part: float) -> float:
        return uniform_whole(part, self.low, self.high)


@final
@dataclass(frozen=True, kw_only=True)
class Exponential(Distribution):
    """Exponential numbers of this mean."""

    mean: float

    def __post_init__(self) -> None:
        check_number("mean", self.mean, above=0)

    def quantile(self, part: float) -> float:
        return -self.mean * math.log1p(-part)


@final
@dataclass(frozen=True, kw_only=True)
class Lognormal(Distribution):
    """Half of the numbers are above ``median``; ``sigma`` is the standard deviation of their logarithm."""

    median: float
    sigma: float

    def __post_init__(self) -> None:
        check_number("median", self.median, above=0)
        check_number("sigma", self.sigma, least=0, most=5)

    def quantile(self, part: float) -> float:
        within = min(max(part, 2.0**-53), 1 - 2.0**-53)
        return self.median * math.exp(self.sigma * NormalDist().inv_cdf(within))


@final
@dataclass(frozen=True, kw_only=True)
class Choice(Distribution):
    """One of ``values``, in proportion to ``weights`` (none: all alike)."""

    values: tuple[float, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("values=[]: must be a list of numbers")
        for one in self.values:
            check_number("values", one)
        if self.weights and len(self.weights) != len(self.values):
            raise ValueError(f"weights={list(self.weights)}: must be as many as values, or none")
        for one in self.weights:
            check_number("weights", one, least=0)
        if self.weights and not sum(self.weights):
            raise ValueError(f"weights={list(self.weights)}: one of them must be above 0")

    def quantile(self, part: float) -> float:
        return self.values[pick_position(part, self.weights or (1.0,) * len(self.values))]


def uniform_whole(part: float, low: int, high: int) -> int:
    """A whole number from ``low`` to ``high``, both included, of a uniform draw."""
    return low + min(int(part * (high - low + 1)), high - low)


def pick_position(part: float, weights: Sequence[float]) -> int:
    """A position of a uniform draw, in proportion to its weight."""
    rest = part * sum(weights)
    for place, weight in enumerate(weights):
        rest -= weight
        if rest < 0:
            return place
    return max(place for place, weight in enumerate(weights) if weight)
