"""The ideal: the same processes computing forward and backward only, with nobody to wait for.

Every rank computes its own iterations at its own pace and continues until the last has finished measuring, so that all
measure under the same load. The result is the mean over ranks of the seconds per iteration: with W ranks on C < W cores
it is W/C times the computation of one, the time that a step without any communication would take.
"""

from __future__ import annotations

import time
from multiprocessing import get_context
from statistics import fmean
from typing import Any

from bench import models
from bench.stats import block_median

from . import ranks

WARM_UP = 3


def bsp_step(model: str, num_workers: int, iterations: int) -> float:
    """Seconds per iteration (median of blocks, mean over ranks)."""
    context = get_context("fork")
    start, finished = context.Barrier(num_workers), context.Semaphore(0)
    stamps = ranks.run(_rank, num_workers, start, finished, num_workers, model, iterations)
    return fmean(map(block_median, stamps))


def _rank(rank: int, start: Any, finished: Any, world: int, model: str, iterations: int) -> list[float]:
    module = models.build(model)
    inputs, labels = models.batch(model, rank)
    for _ in range(WARM_UP):
        models.backward(module, inputs, labels)
    start.wait(ranks.TIMEOUT_S)
    stamps = [time.perf_counter()]
    for _ in range(iterations):
        models.backward(module, inputs, labels)
        stamps.append(time.perf_counter())
    finished.release()
    deadline = time.monotonic() + ranks.TIMEOUT_S
    while finished.get_value() < world and time.monotonic() < deadline:
        models.backward(module, inputs, labels)
    return stamps
