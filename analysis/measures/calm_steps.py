"""A log as it would have been without its slow steps: the cost of single ranks or hosts, or of all."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from analysis.logs.step_log import StepLog
from analysis.measures.lateness import Lateness, nobody_waits
from analysis.measures.phases import phases, runs
from analysis.measures.slow_steps import PERSISTENT_FRAC, SIGMAS, Bools, Floats, SlowSteps, quick

PHASE_ROUNDS = 2
"""Phases change a rank's usual time, which changes its phases."""
SHORT = 3
"""Slow steps of which fewer follow each other have no level of their own: they would have been usual ones."""


@dataclass(frozen=True)
class CalmJob:
    """A log, its slow steps, and the seconds of every rank without them."""

    log: StepLog
    late: Lateness
    barrier: bool
    slow_frac: float
    found: SlowSteps
    calm_s: Floats

    @property
    def middle_s(self) -> Floats:
        """[steps] seconds of the median rank; without slowness where half of the ranks or more are slow."""
        own_s = self.late.own_s
        many = 2 * self.found.slow.sum(axis=1) >= np.maximum(1, (~np.isnan(own_s)).sum(axis=1))
        return np.asarray(np.nanmedian(np.where(many[:, None], self.calm_s, own_s), axis=1))

    def saved_s(self, cells: Bools) -> Floats:
        """[steps] how much shorter each step would have been had these [steps, ranks] not been slow."""
        mended = np.where(cells, self.calm_s, self.late.own_s)
        if not self.barrier:
            return nobody_waits(self.late.own_s) - nobody_waits(mended)
        return np.asarray(np.nanmax(self.late.own_s, axis=1) - np.nanmax(mended, axis=1))

    def alone_saves_frac(self) -> Floats:
        """[ranks] of the job's time, if one rank were like the median of each step.

        Of a job with barriers the two slowest ranks of each step decide.
        """
        own_s, middle = self.late.own_s, self.middle_s
        total = float(self.late.length_s.sum())
        if not self.barrier:
            ratio = 1.0 / own_s
            quicker = np.fmax(ratio, (1.0 / middle)[:, None])
            known = (~np.isnan(own_s)).sum(axis=1, keepdims=True)
            speeds = (np.nansum(ratio, axis=1, keepdims=True) - np.nan_to_num(ratio - quicker)) / known
            return np.asarray(np.maximum(0.0, (nobody_waits(own_s)[:, None] - 1.0 / speeds).sum(axis=0) / total))
        own_s, steps = np.nan_to_num(own_s, nan=-1.0), np.arange(len(own_s))
        first = own_s.argmax(axis=1)
        others = own_s.copy()
        others[steps, first] = -1.0
        left = np.maximum(others.max(axis=1), middle)
        saved = np.bincount(first, weights=own_s[steps, first] - left, minlength=self.log.num_ranks)
        return np.asarray(np.maximum(0.0, saved / total))


def part_of(saved_s: Floats, late: Lateness) -> float:
    """Return the part of the job's time that is saved in [steps]; nothing if it is less."""
    return max(0.0, float(saved_s.sum() / late.length_s.sum()))


def with_phases(found: SlowSteps, own_s: Floats, least: float) -> SlowSteps:
    """The same with all steps of slow phases, also the usual ones within, and bases without these."""
    usual_frac = float(np.quantile(found.slow_frac, 0.25))
    slow, base_s, relative = found.slow, found.base_s, own_s / found.shared[:, None]
    for _ in range(PHASE_ROUNDS):
        over = np.log(relative / base_s)
        slow = found.slow | (phases(over, found.sigma, found.rho, least, usual_frac) & ~np.isnan(own_s))
        enough = ((~slow).mean(axis=0) > 1.0 - PERSISTENT_FRAC) & (~slow & ~np.isnan(own_s)).any(axis=0)
        base_s = base_s.copy()
        base_s[enough] = np.nanmean(np.where(slow, np.nan, relative)[:, enough], axis=0)
    excess = np.where(slow, np.nan_to_num(relative / base_s - 1.0), 0.0)
    return replace(found, slow=slow, excess=excess, base_s=base_s)


def calm_steps(found: SlowSteps, own_s: Floats) -> Floats:
    """[steps, ranks] seconds without slow phases: steps of a phase are divided by its level and keep their jitter.

    A single slow step would have been a usual one, and never quicker than the quicker ranks.
    """
    usual = found.base_s * found.shared[:, None]
    calm = np.where(found.slow, np.fmax(usual, quick(own_s)[:, None]), own_s)
    most = np.exp(SIGMAS * found.sigma) * usual
    for rank in np.flatnonzero(found.slow.any(axis=0)):
        for start, end in runs(found.slow[:, rank]):
            if end - start >= SHORT:
                level = 1.0 + float(np.median(found.excess[start:end, rank]))
                calm[start:end, rank] = np.fmin(own_s[start:end, rank] / level, most[start:end, rank])
    return np.fmin(calm, own_s)
