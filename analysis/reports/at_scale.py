"""Costs of a logged job's stragglers on more GPUs, by the laws of ``analysis/measures/causes.py`` (pure)."""

from __future__ import annotations

import numpy as np

from analysis.logs.step_log import PER_ROW, RELATIVE, LogError, StepLog, drop_untimed_steps
from analysis.measures.causes import Causes, Size, causes_of
from analysis.reports.console import seconds_text

TAIL = 0.95, 0.99
LARGEST = 21
"""The largest number of times as many GPUs for which docs/scale.md compares the laws with measured jobs."""


def at_scale(log: StepLog, gpus: tuple[int, int], then_s: float | None, then_batch: float | None) -> list[str]:
    """The causes in a log, and the excess of a larger job's steps; a step is as long as its slowest rank.

    Args:
        log: with 50 steps or more.
        gpus: of the log, and of the larger job.
        then_s: the larger job's median step; None: the log's.
        then_batch: the larger job's samples per step, relative to the log's; None: 1.

    Raises:
        LogError: the log has too few steps, or no seconds of single steps.
    """
    if log.job.get(RELATIVE) or log.job.get(PER_ROW, 1) > 1:
        raise LogError(f"{log.source}: --gpus needs the seconds of every step; log each of them")
    seconds = np.nanmax(drop_untimed_steps(log).own_s, axis=1)
    try:
        causes = causes_of(seconds, gpus[0], 1.0)
    except ValueError as error:
        raise LogError(f"{log.source}: {error}; log more of them, or leave out fewer (--skip)") from None
    larger = Size(gpus[1], then_s or causes.size.step_s, then_batch or 1.0)
    return [*log.remarks, logged_line(causes, len(seconds)), *predicted_lines(causes, larger)]


def logged_line(causes: Causes, steps: int) -> str:
    """The causes that were found in a job's log."""
    every, size = causes.every_steps, causes.size
    found = [
        *([f"one step in {every} takes {1000 * causes.periodic_s:+.3g} ms"] if every else []),
        f"slow phases with a standard deviation of {1000 * causes.slow_s.std():.3g} ms",
        f"jitter with {1000 * causes.jitter_s:.3g} ms",
        f"pauses in {causes.pause_frac:.1%} of the steps, {1000 * causes.pause_s:.3g} ms on average",
        f"rare events in {causes.event_frac:.1%} of the steps",
    ]
    return f"{steps} steps on {size.gpus:,} GPUs, median {seconds_text(size.step_s)} s: {'; '.join(found)}"


def predicted_lines(causes: Causes, size: Size) -> list[str]:
    """The excess of a larger job's steps over their median."""
    excess_s = causes.excess_s(size)
    tail = ", ".join(
        f"{1 - part:.0%} exceed the median by {1000 * value:.3g} ms or more ({1 + value / size.step_s:.3f} times it)"
        for part, value in zip(TAIL, np.quantile(excess_s, TAIL), strict=True)
    )
    cost_s, times = causes.cost_s(size), size.gpus / causes.size.gpus
    lines = [
        f"on {size.gpus:,} GPUs with a median step of {seconds_text(size.step_s)} s: pauses and rare events take "
        f"{1000 * cost_s:.3g} ms of a step on average ({cost_s / size.step_s:.2%}); of the steps {tail}"
    ]
    if times > LARGEST:
        lines.append(
            f"{times:.0f} times as many GPUs: these laws were compared with jobs of up to {LARGEST} times as many only"
        )
    return lines
