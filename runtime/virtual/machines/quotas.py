"""Processor quotas as the Linux kernel enforces them: an amount per period, which may be used at full speed (pure)."""

from __future__ import annotations

from typing import NamedTuple

LEAST_S = 1e-3
"""The Linux kernel accepts no smaller quota; a smaller share has a longer period instead."""


class Quota(NamedTuple):
    """A token bucket: unused quota is kept, up to the quota of one period.

    Linux refills it at the end of every period, this model continuously: after a pause of g, work of c core-seconds
    under q cores takes (c - min(q g, depth)) / q if it is long, and c if it is short. Live runs keep to it where Linux
    is made to look often enough (:mod:`runtime.live.machines.ticks`).
    """

    cores: float
    depth_s: float
    """Core-seconds of a full bucket, with which it begins."""


def quota_of(cores: float, period_s: float) -> Quota:
    """The quota whose average over a period is ``cores``."""
    return Quota(cores, depth_s(cores, period_s))


def depth_s(cores: float, period_s: float) -> float:
    """Core-seconds that an average of ``cores`` may use at once: the quota of one period."""
    return max(cores * period_s, LEAST_S) if cores else 0.0
