"""Outliers among the workers: how far a worker's time lies above the median of all, in deviations and in per cent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import final

from predictors.recent import ByRecent
from reading.ranges import NonNegativeFloat, PositiveInt

MADS_OF_Z = 1 / 0.6745
"""Median absolute deviations per standard deviation of normal numbers."""


@final
@dataclass(kw_only=True)
class Outlier(ByRecent):
    """Tags workers that exceed the median worker's time by more than ``mads`` deviations and by ``least_frac`` of it.

    The deviation is the median absolute one (MAD), which a few slow workers do not change.

    As ``megatron`` (1 MAD and 10 %, over 20 iterations): the rule by which Megatron-LM's ``gpu_sniff_test`` calls a
    rank's benchmark an outlier (github.com/NVIDIA/Megatron-LM, megatron/training/gpu_sniff_test.py; pull request 4662
    had the mean and one standard deviation). It compares the means of 20 runs of a benchmark; here it compares
    iterations, and only slower ones count.

    As ``robust_z`` (z above 3.5, over 10 iterations): the modified z-score of Iglewicz and Hoaglin (How to Detect and
    Handle Outliers, 1993), 0.6745 (x - median) / MAD.

    Attributes:
        mads: median absolute deviations above the median.
        least_frac: part of the median by which an outlier exceeds it, at least.
        window_iters: a worker's time is the median of this many iterations.
    """

    mads: NonNegativeFloat = 1.0
    least_frac: NonNegativeFloat = 0.1
    window_iters: PositiveInt = 20

    def tags(self, t: float) -> frozenset[int]:
        """Workers above the threshold now; none of fewer than three, of which none is in the minority."""
        return outliers(self._recent.median_s, self.mads, self.least_frac)


def outliers(seconds: Mapping[int, float], mads: float, least_frac: float) -> frozenset[int]:
    """The workers whose seconds exceed the median by more than either bound."""
    if len(seconds) < 3:
        return frozenset()
    middle_s = median(seconds.values())
    bound_s = max(mads * median(abs(own_s - middle_s) for own_s in seconds.values()), least_frac * middle_s)
    return frozenset(worker for worker, own_s in seconds.items() if own_s - middle_s > bound_s)
