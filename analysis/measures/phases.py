"""Phases in which a rank was slow: from which step to which, although single steps of them may have been quick.

Two states, usual and slow, with a penalty for each change between them (Viterbi's algorithm over the steps of every
rank): a change point needs as much evidence as would not come about by chance in any rank of the log.
"""

from __future__ import annotations

from itertools import pairwise
from math import log

import numpy as np

from analysis.measures.slow_steps import Bools, Floats

MOST_EVIDENCE = 6.0
"""Most evidence that one step gives, for or against: a phase needs several."""
CHANCE = 7.0
"""Logarithm of a thousand: of as many logs one has a phase by chance."""
FEWEST_EVENTS, SHORTEST = 4, 4
"""So many events, and so many steps from one to the next, make a period, at least."""
REGULAR_FRAC, TOLERANCE, MOST_MISSING = 0.8, 0.05, 3
"""Part of the events that come in time, how far off that is (of the period), and after how many periods at most."""


def phases(over: Floats, sigma: float, rho: float, least: float, usual_frac: float = 0.0) -> Bools:
    """Whether each step lies in a slow phase.

    Args:
        over: [steps, ranks] logarithms of seconds over usual ones; NaN where unknown.
        sigma: standard deviation of usual steps.
        rho: their AR(1) coefficient.
        least: the logarithm of a slow step's factor, at least.
        usual_frac: part of the steps that are slow at ranks that are no stragglers; one of them is no evidence.
    """
    most = min(MOST_EVIDENCE, -log(min(0.9, max(usual_frac, 1.0 / len(over)))))
    spread = max(sigma, least / 8)
    shift = max(least, spread)
    evidence = np.clip((over - shift / 2) * shift / spread**2, -MOST_EVIDENCE, most)
    evidence = np.nan_to_num(evidence) * (1.0 - rho) / (1.0 + rho)
    slow = _decode(evidence, (log(over.size) + CHANCE) / 2)
    for rank in np.flatnonzero(slow.any(axis=0)):
        for start, end in runs(slow[:, rank]):
            if not float(np.nanmedian(over[start:end, rank])) > 0.8 * least:
                slow[start:end, rank] = False
    return slow


def runs(slow: Bools, gap: int = 0) -> list[tuple[int, int]]:
    """[start, end) of the runs of a series; those that are no more than ``gap`` steps apart are one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], slow, [False]]).astype(np.int8)))
    found: list[tuple[int, int]] = []
    for start, end in edges.reshape(-1, 2).tolist():
        if found and start - found[-1][1] <= gap:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def period_of(starts: list[int]) -> int | None:
    """The period of events at these steps, if nearly all are regular; a few may be missing."""
    if len(starts) < FEWEST_EVENTS:
        return None
    apart = np.array([after - before for before, after in pairwise(starts)])
    period = float(np.median(apart))
    times = np.maximum(1.0, np.round(apart / period))
    regular = (np.abs(apart - times * period) <= np.maximum(1.0, TOLERANCE * period)) & (times <= MOST_MISSING)
    if period < SHORTEST or float(regular.mean()) < REGULAR_FRAC:
        return None
    return round(float(np.median(apart[regular] / times[regular])))


def _decode(evidence: Floats, penalty: float) -> Bools:
    """The likeliest states, given the evidence for being slow and the price of a change."""
    steps, ranks = evidence.shape
    usual, slow = np.zeros(ranks), np.full(ranks, -penalty)
    from_slow, from_usual = np.empty((steps, ranks), bool), np.empty((steps, ranks), bool)
    for step in range(steps):
        from_slow[step] = slow - penalty > usual  # into usual
        from_usual[step] = usual - penalty > slow  # into slow
        usual, slow = np.maximum(usual, slow - penalty), np.maximum(slow, usual - penalty) + evidence[step]
    states = np.empty((steps, ranks), bool)
    state = slow > usual
    for step in range(steps - 1, -1, -1):
        states[step] = state
        state = np.where(state, ~from_usual[step], from_slow[step])
    return states
