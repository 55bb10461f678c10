"""Causes of the spread of step times, each with its own law: fitted to one job, they predict a larger one (pure).

A log with the clock of one process does not tell ranks apart, but causes differ in how they come:

- *periodic steps*, such as the one after an evaluation: every so many samples, by the same seconds;
- *slow phases*, over tens of steps: by the same part of a step;
- *jitter*, normal and independent from step to step: its variance grows with the work of a step, so its seconds
  with the root of the step's time;
- *pauses*, exponential: as often per step, and as many seconds, in jobs of any size;
- *rare events*, far beyond the pauses: as often per hour of a host, and as many seconds.

Nothing grows as the maximum over independent ranks does; docs/scale.md compares these laws with that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]

FEWEST_STEPS = 50
WINDOW_STEPS = 25
"""Steps of the running median that follows slow phases."""
LONGEST_PERIOD, FEWEST_PERIODS = 100, 8
SURE = 6.0
"""Standard errors of the median of periodic steps, by which it must differ."""
PART_BEYOND = 0.8, 0.9
"""So large a part of the periodic steps lies beyond so large a part of the others."""
RARE = 5.0
"""An event's excess, relative to the excess that 5 % of the steps have."""
DRAWS = 50_000
STARTS = tuple((frac, times) for frac in (0.03, 0.1, 0.3) for times in (1.0, 3.0))
"""Starts of the search for pauses: how frequent they are, and how long relative to the jitter."""


@dataclass(frozen=True)
class Size:
    """A job's size: GPUs, the median step in seconds, samples per step (only their ratio to other jobs counts)."""

    gpus: int
    step_s: float
    batch_samples: float


@dataclass(frozen=True)
class Causes:
    """The causes in one job; seconds are relative to its median step.

    Attributes:
        size: of the job.
        every_steps: period of periodic steps; 0: there are none.
        periodic_s: by which they are longer.
        slow_s: [steps]: of slow phases.
        usual_s: of a step without any cause.
        jitter_s: standard deviation.
        pause_frac: steps that have a pause.
        pause_s: mean.
        event_frac: steps that have a rare event.
        events_s: [events]: of each.
    """

    size: Size
    every_steps: int
    periodic_s: float
    slow_s: Floats
    usual_s: float
    jitter_s: float
    pause_frac: float
    pause_s: float
    event_frac: float
    events_s: Floats

    def excess_s(self, size: Size, draws: int = DRAWS, seed: int = 0) -> Floats:
        """[draws], sorted: seconds of a job's steps over its median, for a job of the given size."""
        rng = np.random.default_rng(seed)
        longer = size.step_s / self.size.step_s
        found = longer * rng.choice(self.slow_s, draws)
        found += self.jitter_s * longer**0.5 * rng.standard_normal(draws)
        found += np.where(rng.random(draws) < self.pause_frac, rng.exponential(self.pause_s, draws), 0.0)
        if self.every_steps:
            share = size.batch_samples / (self.every_steps * self.size.batch_samples)
            found += np.where(rng.random(draws) < share, self.periodic_s, 0.0)
        if self.event_frac:
            found += np.where(rng.random(draws) < self.with_event(size), rng.choice(self.events_s, draws), 0.0)
        return np.sort(found - np.median(found))

    def with_event(self, size: Size) -> float:
        """Part of the steps of a job of the given size that have a rare event."""
        hours = size.gpus * size.step_s / (self.size.gpus * self.size.step_s)
        return float(1.0 - (1.0 - self.event_frac) ** hours)

    def cost_s(self, size: Size) -> float:
        """Mean seconds of pauses and rare events in a step of a job of the given size."""
        of_event_s = float(self.events_s.mean()) if self.event_frac else 0.0
        return self.pause_frac * self.pause_s + self.with_event(size) * of_event_s


def causes_of(seconds: Floats, gpus: int, batch_samples: float) -> Causes:
    """Fit the causes to a job's step times.

    Args:
        seconds: [steps], without a warm-up.
        gpus: of the job.
        batch_samples: of a step.

    Raises:
        ValueError: there are fewer than ``FEWEST_STEPS`` steps.
    """
    if len(seconds) < FEWEST_STEPS:
        raise ValueError(f"{len(seconds)} steps: causes need {FEWEST_STEPS}")
    size = Size(gpus, float(np.median(seconds)), batch_samples)
    over = seconds - size.step_s
    slow = running_median(over, WINDOW_STEPS)
    every, phase, longer = periodic(over - slow)
    others = np.ones(len(over), dtype=bool)
    if every:
        others[phase::every] = False
        slow = running_median(np.where(others, over, over - longer), WINDOW_STEPS)
    rest = (over - slow)[others]
    usual = float(np.median(rest))
    rare = rest - usual > RARE * float(np.quantile(rest, 0.95) - usual)
    fitted = _jitter_and_pauses(rest[~rare])
    return Causes(size, every, longer, slow, *fitted, float(rare.mean()), rest[rare])


def running_median(values: Floats, window: int) -> Floats:
    """[steps]: the median of ``window`` (odd) steps around each; the ends are mirrored."""
    mirrored = np.pad(values, window // 2, mode="reflect")
    found: Floats = np.median(np.lib.stride_tricks.sliding_window_view(mirrored, window), axis=1)
    return found


def periodic(values: Floats) -> tuple[int, int, float]:
    """Period, first step and seconds of the steps that differ most clearly; zeros if none are clear."""
    spread = float(np.median(np.abs(values - np.median(values)))) * 1.4826
    best, clearest = (0, 0, 0.0), SURE
    for every in range(2, min(LONGEST_PERIOD, len(values) // FEWEST_PERIODS) + 1):
        for phase in range(every):
            mine = values[phase::every]
            longer = float(np.median(mine))
            clear = abs(longer) * len(mine) ** 0.5 / (1.2533 * spread) if spread else 0.0
            if clear > clearest and _lies_beyond(values, phase, every, np.sign(longer)):
                best, clearest = (every, phase, longer), clear
    return best


def _lies_beyond(values: Floats, phase: int, every: int, sign: float) -> bool:
    mine, others = sign * values[phase::every], sign * np.delete(values, np.s_[phase::every])
    return float(np.quantile(mine, 1.0 - PART_BEYOND[0])) > float(np.quantile(others, PART_BEYOND[1]))


def _jitter_and_pauses(values: Floats) -> tuple[float, float, float, float]:
    """Mean and deviation of a normal, and chance and mean of an exponential added to it, by maximum likelihood."""
    from scipy.optimize import minimize
    from scipy.special import expit, log_expit, log_ndtr, logit

    middle = float(np.median(values))
    spread = float(middle - np.quantile(values, 0.25)) / 0.6745
    if spread <= 0:
        return middle, 0.0, 0.0, 0.0
    scaled = (values - middle) / spread

    def unlikely(point: Sequence[float]) -> float:
        mean, sigma, odds, pause = point[0], np.exp(point[1]), point[2], np.exp(point[3])
        z, ratio = (scaled - mean) / sigma, sigma / pause
        without = -0.5 * z**2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
        with_one = 0.5 * ratio**2 - z * ratio + log_ndtr(z - ratio) - np.log(pause)
        return -float(np.logaddexp(log_expit(-odds) + without, log_expit(odds) + with_one).sum())

    found = min(
        (
            minimize(
                unlikely,
                [0.0, 0.0, logit(frac), np.log(times)],
                method="Nelder-Mead",
                options={"maxiter": 1000, "xatol": 1e-4, "fatol": 1e-4},
            )
            for frac, times in STARTS
        ),
        key=lambda one: one.fun,
    ).x
    mean, sigma, pause = float(found[0]), float(np.exp(found[1])), float(np.exp(found[3]))
    return middle + spread * mean, spread * sigma, float(expit(found[2])), spread * pause


# ---- what else could be expected of a larger job ---------------------------------------------------------------------


def unchanged_s(seconds: Floats, size: Size) -> Floats:
    """[steps]: the excess if it stays the same part of a step."""
    return (seconds / np.median(seconds) - 1.0) * size.step_s


def same_s(seconds: Floats) -> Floats:
    """[steps]: the excess if it stays the same in seconds."""
    return seconds - np.median(seconds)


def of_slowest_s(seconds: Floats, gpus: int, size: Size, draws: int = DRAWS) -> Floats:
    """[draws]: the excess if a step takes as long as the slowest of size.gpus / gpus independent jobs of this one."""
    chances = (np.arange(draws) + 0.5) / draws
    slowest = np.quantile(unchanged_s(seconds, size), chances ** (gpus / size.gpus), method="inverted_cdf")
    return slowest - np.median(slowest)


def distance(one: Floats, other: Floats) -> float:
    """The Kolmogorov-Smirnov distance of two samples."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(one, other).statistic)


def between_halves(seconds: Floats) -> float:
    """The distance between a job's first and second half, each relative to its own median."""
    first, second = np.array_split(seconds, 2)
    return distance(same_s(first), same_s(second))
