"""The statistics of every peer, defined once so that nobody is flattered by another one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

BLOCKS = 5


def median_gap(stamps_s: Sequence[float]) -> float:
    """Push and pull: the median iteration, from the times between iterations."""
    return median(after - before for before, after in pairwise(stamps_s))


def block_edges(iterations: int) -> list[int]:
    """Where ``BLOCKS`` blocks of near-equal length begin and end: ``BLOCKS`` + 1 iteration counts."""
    if iterations < BLOCKS:
        raise ValueError(f"iterations={iterations}: at least {BLOCKS}, one per block")
    return [iterations * index // BLOCKS for index in range(BLOCKS + 1)]


def block_median(stamps_s: Sequence[float]) -> float:
    """Training steps: the median over ``BLOCKS`` blocks of a block's time per iteration.

    ``stamps_s`` holds the start and then the end of each iteration. A block and not single iterations: with more
    processes than cores the scheduler deals out turns of milliseconds, so that the median of single iterations says
    more about turns than about steps; and some peers (Ray) overlap iterations, whose ends cannot be distinguished.
    """
    edges = block_edges(len(stamps_s) - 1)
    return median((stamps_s[high] - stamps_s[low]) / (high - low) for low, high in pairwise(edges))


def timed_blocks(steps: Callable[[int], None], iterations: int) -> float:
    """The same of a peer that ``steps(count)`` drives for so many iterations and waits for at the end of each block."""
    per_iteration = []
    for low, high in pairwise(block_edges(iterations)):
        begun = time.perf_counter()
        steps(high - low)
        per_iteration.append((time.perf_counter() - begun) / (high - low))
    return median(per_iteration)
