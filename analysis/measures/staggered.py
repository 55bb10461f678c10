"""Pauses that ranks make at one period, each in a phase of its own: a barrier waits for every one of them.

Garbage collections of interpreters are such pauses (pytorch/torchtitan#148, marin-community/marin#9205). The cure is to
pause in the same step, since a barrier waits for one pause per period then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.measures.calm_steps import SHORT, CalmJob
from analysis.measures.phases import MOST_MISSING, REGULAR_FRAC, TOLERANCE, runs
from analysis.measures.slow_steps import Bools, Floats

FEWEST_EVENTS, FEWEST_STEPS = 5, 10
"""So many pauses of a rank, and so many usual steps from one to the next, make a period, at least."""
FEWEST_FRAC = 0.25
"""Part of all ranks, and half of the ranks with so many slow steps, that must have the period."""
DRIFT = 0.2
"""Periods of ranks differ by so much of their median, at most."""
ALIKE = 0.5
"""Slow steps of other ranks are pauses, too, if they differ by so much of a pause at most."""
APART = 1.5
"""Pauses are apart if so many times as many steps have one as have a pause of one rank."""
GUESSES = np.linspace(0.05, 0.95, 10)
"""Quantiles of the times between slow steps that are tried as the period."""


@dataclass(frozen=True)
class Staggered:
    """Pauses of ranks at one period, each in its own phase.

    Attributes:
        members: positions of the ranks.
        period: from one pause of a rank to its next, median over the ranks that keep it; in ``unit``.
        unit: ``s``, seconds of the job, or ``steps``, whichever is more regular.
        period_steps: the period, in steps.
        length_s: seconds of a pause, median.
        cells: [steps, ranks] the pauses, also as long ones of ranks that miss some of their periods.
        cost_s: [steps] how much shorter each step would have been without them.
        saved_s: [steps] how much shorter, on average, if all ranks paused in the same step for the longest pause.
    """

    members: tuple[int, ...]
    period: float
    unit: str
    period_steps: int
    length_s: float
    cells: Bools
    cost_s: Floats
    saved_s: Floats


class _Found(NamedTuple):
    """The ranks with a period on one clock: their periods, and the numbers of the periods in which each paused."""

    unit: str
    periods: dict[int, float]
    turns: dict[int, NDArray[np.int64]]
    spread: float


def staggered_pauses(job: CalmJob) -> Staggered | None:
    """The pauses of a job with barriers; None: too few ranks have one period, or they pause in the same steps."""
    if not job.barrier:
        return None
    short, length_s = _short(job.found.slow), job.late.length_s
    events = {rank: np.flatnonzero(each) for rank, each in enumerate(short.T) if each.sum() >= FEWEST_EVENTS}
    begin_s, usual_s = np.cumsum(length_s) - length_s, float(np.median(length_s))
    tried = [
        _on_clock("s", begin_s, usual_s, events),
        _on_clock("steps", np.arange(len(short), dtype=float), 1.0, events),
    ]
    found = max(tried, key=lambda one: (len(one.periods), -one.spread))
    if len(found.periods) < max(2.0, FEWEST_FRAC * short.shape[1], 0.5 * len(events)):
        return None
    pause_s = job.late.own_s - job.calm_s
    regular = short & np.isin(np.arange(short.shape[1]), list(found.periods))
    most = max(len(events[rank]) for rank in found.periods)
    if regular.any(axis=1).sum() < APART * most:
        return None
    usual_pause_s = float(np.median(pause_s[regular]))
    cells = regular | (short & (np.abs(pause_s / usual_pause_s - 1.0) <= ALIKE))
    longest = _longest_s([pause_s[events[rank], rank] for rank in found.periods], list(found.turns.values()))
    period, cost_s = float(np.median(list(found.periods.values()))), job.saved_s(cells)
    aligned_s = np.full(len(cells), longest / period)
    if found.unit == "s":
        if longest >= period:
            return None
        aligned_s = (length_s - cost_s) * longest / (period - longest)
    return Staggered(
        members=tuple(np.flatnonzero(cells.any(axis=0)).tolist()),
        period=period,
        unit=found.unit,
        period_steps=round(float(np.median([np.median(np.diff(events[rank])) for rank in found.periods]))),
        length_s=usual_pause_s,
        cells=cells,
        cost_s=cost_s,
        saved_s=cost_s - aligned_s,
    )


def _short(slow: Bools) -> Bools:
    """The first steps of slow phases that are too short to have a level of their own."""
    short = np.zeros(slow.shape, bool)
    for rank in np.flatnonzero(slow.any(axis=0)):
        short[[start for start, end in runs(slow[:, rank]) if end - start < SHORT], rank] = True
    return short


def _on_clock(unit: str, clock: Floats, slack: float, events: Mapping[int, NDArray[np.int64]]) -> _Found:
    """The ranks that pause at one period, of the periods that are tried the one of most ranks."""
    times = {rank: clock[steps] for rank, steps in events.items()}
    apart = np.concatenate([np.diff(one) for one in times.values()]) if times else np.empty(0)
    guesses = np.quantile(apart, GUESSES).tolist() if len(apart) else []
    tried = [_at_period(unit, guess, slack, times) for guess in guesses if guess >= FEWEST_STEPS * slack]
    return max(tried, key=lambda one: (len(one.periods), -one.spread), default=_Found(unit, {}, {}, np.inf))


def _at_period(unit: str, about: float, slack: float, times: Mapping[int, Floats]) -> _Found:
    periods, turns, offs = dict[int, float](), dict[int, NDArray[np.int64]](), list[Floats]()
    for rank, own in times.items():
        apart = np.diff(own)
        count = np.maximum(1.0, np.round(apart / about))
        near = (np.abs(apart - count * about) <= DRIFT * about) & (count <= MOST_MISSING)
        if float(near.mean()) < REGULAR_FRAC:
            continue
        period = float(np.median(apart[near] / count[near]))
        off = np.abs(apart - count * period)
        if float((near & (off <= max(slack, TOLERANCE * period))).mean()) >= REGULAR_FRAC:
            periods[rank], offs = period, [*offs, off[near] / period]
            turns[rank] = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return _Found(unit, periods, turns, float(np.concatenate(offs).mean()) if offs else np.inf)


def _longest_s(pauses_s: Sequence[Floats], turns: Sequence[NDArray[np.int64]]) -> float:
    """Mean over the periods of the longest pause of all ranks in it."""
    longest = np.zeros(1 + max(int(one.max()) for one in turns))
    for own_s, places in zip(pauses_s, turns, strict=True):
        np.maximum.at(longest, places, own_s)
    return float(longest[longest > 0].mean())
