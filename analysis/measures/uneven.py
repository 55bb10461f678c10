"""Work of unequal size: what a job would take if every step's work were divided evenly over its ranks."""

from __future__ import annotations

from math import sqrt

import numpy as np

from analysis.measures.calm_steps import CalmJob
from analysis.measures.slow_steps import SIGMAS, Bools, Floats

LEAST_UNEVEN = 0.1
"""Work is of unequal size if a barrier waits for so much longer than the median rank works, besides slow steps."""


def balanced_saved_s(job: CalmJob, cells: Bools) -> Floats:
    """[steps] how much shorter each step would have been with even work; may be less than 0 by chance.

    The work of a rank's step is its seconds over its usual seconds, so a slow device stays slow; usual seconds that
    differ as much as the mean work of so many steps does by chance count as equal. Slow steps count as
    work, but the excess of ``cells`` ([steps, ranks], of stragglers and pauses) stays with its rank.
    """
    own_s, found = job.late.own_s, job.found
    by_chance = SIGMAS * found.sigma / sqrt(len(own_s))
    alike = np.abs(np.log(found.base_s / found.usual_s)) <= by_chance
    base_s = np.where(alike, found.usual_s, found.base_s)
    work_s = np.where(cells, job.calm_s, own_s)
    even = np.nanmean(work_s / base_s, axis=1, keepdims=True)
    return np.asarray(np.nanmax(own_s, axis=1) - np.nanmax(own_s / work_s * base_s * even, axis=1))
