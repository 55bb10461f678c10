"""Rank the options: strategies by the work of repeated jobs in the logged history, cures by the time that they save."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isnan, nan
from typing import NamedTuple

import numpy as np

from analysis.measures.block_intervals import in_blocks, ratio_interval
from analysis.measures.distinguishing import SAME_FRAC
from analysis.measures.slow_steps import Floats

HOUR_S = 3600.0


class Repeated(NamedTuple):
    """A strategy's results while the logged history passed once.

    ``work``: [blocks] samples of progress in every block of time, all of one length. ``applied``: samples applied in
    all, of which some are no progress if a slower worker's part is never done.
    """

    work: Floats
    applied: float
    staleness: float
    update_frac: float
    dropped_frac: float


class Ranked(NamedTuple):
    """One strategy or cure: its time for the logged steps, relative to the present time, and the interval around it."""

    strategy: str
    ratio: float
    low: float
    high: float
    jct_s: float
    staleness: float = 0.0
    """Mean, in updates."""
    update_frac: float = 1.0
    """Samples of an update, of the global batch."""
    dropped_frac: float = 0.0
    """Share of all gradients."""

    @property
    def verdict(self) -> str:
        """Return the interval's verdict: faster, slower, the same (within 1 %), or not distinguishable."""
        if self.ratio == inf:
            return "slower"
        if isnan(self.low):
            return "not distinguishable"
        if self.low > 1.0 - SAME_FRAC and self.high < 1.0 + SAME_FRAC:
            return "the same"
        return "faster" if self.high < 1.0 else "slower" if self.low > 1.0 else "not distinguishable"


def rank_strategies(jobs: Mapping[str, Repeated], present: str, logged_s: float, paused_s: float = 0.0) -> list[Ranked]:
    """Strategies from the fastest to the slowest, by the time that each needs for the present one's work.

    All pass the whole logged history; a faster candidate does more work in it.

    Args:
        jobs: by strategy.
        present: the strategy that others are relative to.
        logged_s: seconds of all logged steps.
        paused_s: of these, pauses of all ranks, which no strategy shortens.
    """
    fixed = paused_s / logged_s
    base = jobs[present].work

    def one(name: str, job: Repeated) -> Ranked:
        total = float(job.work.sum())
        ends = (inf, nan, nan) if total <= 0 else (float(base.sum()) / total, *ratio_interval(base, job.work))
        if name == present:
            ends = (1.0, nan, nan)
        ratio, low, high = (fixed + (1.0 - fixed) * each for each in ends)
        return Ranked(name, ratio, low, high, ratio * logged_s, job.staleness, job.update_frac, job.dropped_frac)

    return by_time([one(name, job) for name, job in jobs.items()])


def ranked_cure(name: str, length_s: Floats, saved_s: Floats, restart_s: float, block: int) -> Ranked:
    """A cure that is no strategy.

    Args:
        name: of it.
        length_s: [steps] seconds of the logged steps.
        saved_s: [steps] of these, the saved seconds.
        restart_s: its cost, once.
        block: steps of a block of its interval.
    """
    total = float(length_s.sum())
    once = restart_s / total
    ratio = 1.0 - float(saved_s.sum()) / total
    low, high = ratio_interval(in_blocks(length_s - saved_s, block), in_blocks(length_s, block))
    return Ranked(name, ratio + once, low + once, high + once, (ratio + once) * total)


class Saved(NamedTuple):
    """The savings of a cure while its cause is there, before a restart: of a mean step, in seconds, and of an hour.

    ``low_s``, ``high_s``: the 95 % interval of ``step_s``, as of a ratio; NaN where there are fewer than four blocks.
    """

    step_s: float
    low_s: float
    high_s: float
    hour_s: float


def saved_per_step(length_s: Floats, saved_s: Floats, block: int) -> Saved:
    """The seconds that are saved of a mean step, and of an hour.

    Args:
        length_s: [steps] seconds of the steps in which the cause was there.
        saved_s: [steps] of these, the saved seconds.
        block: steps of a block of the interval.
    """
    left, mean_s = 1.0 - float(saved_s.sum() / length_s.sum()), float(length_s.mean())
    low, high = ratio_interval(in_blocks(length_s - saved_s, block), in_blocks(length_s, block))
    return Saved(mean_s * (1.0 - left), mean_s * (1.0 - high), mean_s * (1.0 - low), HOUR_S * (1.0 - left))


def by_time(rows: list[Ranked]) -> list[Ranked]:
    """The same rows, the fastest first."""
    return sorted(rows, key=lambda one: one.ratio)


def work_in_blocks(times_s: Floats, work: Floats, end_s: float, blocks: int) -> Floats:
    """[blocks] of work that was done at some times: work between two of them is spread evenly."""
    edges = np.linspace(0.0, end_s, blocks + 1)
    done = np.interp(edges, np.concatenate([[0.0], times_s]), np.concatenate([[0.0], np.cumsum(work)]))
    return np.asarray(np.diff(done))
