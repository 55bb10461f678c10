"""Machines of permanently different speeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import check_name, check_number, check_targets, expand_targets
from injectors.patterns.streams import stream
from injectors.plan import ClusterShape, Disturbance, Plan, build_plan


@final
@dataclass(frozen=True, kw_only=True)
class Heterogeneity(Pattern):
    """Each target's computing takes longer by a fixed factor; factors are lognormal, and the fastest is undisturbed.

    Even machines of one type differ: AntDT gains by balancing at an intensity of stragglers at which no one among equal
    workers would stand out (Table III, 0.1). The factors are not drawn but set to the quantiles of the distribution, so
    every seed has the same set of factors and only assigns them differently; otherwise the slowest of a few machines
    would vary more between seeds than between strategies.

    Attributes:
        sigma: standard deviation of the logarithm of the factors; 0: all are equal.
        targets: ``worker:1``, ``server:0``, ``worker:*``.
        middling: targets that always get the middle factors, such as the straggler of another pattern, which would
            otherwise be a fast machine with one seed and a slow one with another.
        name: see :class:`Pattern`.
    """

    sigma: float = 0.35
    targets: tuple[str, ...] = ("worker:*",)
    middling: tuple[str, ...] = ()
    name: str = "heterogeneity"

    def __post_init__(self) -> None:
        check_number("sigma", self.sigma, least=0, most=2)
        check_targets(self.targets, "slowdown")
        if self.middling:
            check_targets(self.middling, "slowdown", "middling")
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window for each target but the fastest, over the whole horizon."""
        factors = self._dealt(expand_targets(self.targets, cluster), expand_targets(self.middling, cluster), seed)
        windows = (
            Disturbance(start_s=0.0, end_s=horizon_s, target=target, kind="slowdown", magnitude=slowdown)
            for target, slowdown in factors.items()
        )
        return build_plan(self.name, seed, horizon_s, windows)

    def _dealt(self, targets: list[str], middling: list[str], seed: int) -> dict[str, float]:
        """The fraction by which each target's own time is lengthened."""
        if strangers := [target for target in middling if target not in targets]:
            raise ValueError(f"middling={strangers[0]}: is none of the targets")
        factors = relative_factors(len(targets), self.sigma)
        first = (len(factors) - len(middling) + 1) // 2
        middle = factors[first : first + len(middling)]
        others = [target for target in targets if target not in middling]
        others.sort(key=lambda target: stream(seed, self.name, target).random())
        rest = factors[:first] + factors[first + len(middling) :]
        dealt = dict(zip([*middling, *others], [*middle, *rest], strict=True))
        return {target: factor / factors[0] - 1 for target, factor in dealt.items()}


def relative_factors(count: int, sigma: float) -> list[float]:
    """``count`` factors, ascending, of mean 1: exp(sigma z) at normal scores z (Blom: (i - 3/8) / (count + 1/4))."""
    scores = [NormalDist().inv_cdf((i + 1 - 3 / 8) / (count + 1 / 4)) for i in range(count)]
    raw = [math.exp(sigma * score) for score in scores]
    return [factor * count / math.fsum(raw) for factor in raw]
