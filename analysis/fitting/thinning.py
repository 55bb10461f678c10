"""A part of a long log that stands for all of it: blocks of steps, one of every stretch of the log.

The log is divided into stretches of equal length, and of each one block is kept, chosen so that the cost of the steps
kept so far matches their share of all steps: in total, and at every rank. So costs keep their proportion, short slow
phases their length, and long ones their share, their begin and their end.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from analysis.measures.slow_steps import Floats

FEWEST_STRETCHES = 24


def thinned(cost_s: Floats, keep_one_in: int, block: int) -> list[tuple[int, int]]:
    """[first, end) of the blocks that are kept.

    Args:
        cost_s: [steps, what] seconds that each step cost, by whatever is to keep its proportion.
        keep_one_in: so many steps are represented by one.
        block: steps of a block, as far as there are 24 stretches.
    """
    steps = len(cost_s)
    if keep_one_in <= 1:
        return [(0, steps)]
    block = max(1, min(block, steps // (keep_one_in * FEWEST_STRETCHES)))
    borders = np.linspace(0, steps, max(1, steps // (block * keep_one_in)) + 1).astype(np.int64)
    sums = np.concatenate([np.zeros((1, cost_s.shape[1])), np.cumsum(cost_s, axis=0)])
    kept, pieces = np.zeros(cost_s.shape[1]), list[tuple[int, int]]()
    for start, end in pairwise(borders.tolist()):
        firsts = np.arange(start, end - block + 1)
        wanted = sums[end] * (block * (len(pieces) + 1) / end)
        off = np.abs(kept + sums[firsts + block] - sums[firsts] - wanted).sum(axis=1)
        first = int(firsts[off.argmin()])
        kept += sums[first + block] - sums[first]
        pieces.append((first, first + block))
    return pieces
