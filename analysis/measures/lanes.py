"""Which workers are drawn where there are too many for a lane each (pure)."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.measures.work import with_samples

MOST = 32
"""Workers of which each has a lane: half of a page."""


def lane_heights(workers: Sequence[int], iterations: pd.DataFrame) -> dict[int, float]:
    """The heights of the lanes of ``workers``, which ascend: their numbers, or with more than ``MOST`` their places.

    With more, half of the lanes show the slowest workers, by the mean time of their iterations, and the other half
    workers that are evenly spaced among the rest.
    """
    if len(workers) <= MOST:
        return {worker: float(worker) for worker in workers}
    mean_s = with_samples(iterations).groupby("worker")["iter_s"].mean().reindex(workers, fill_value=0.0)
    slowest = set(mean_s.sort_values(ascending=False, kind="stable").index[: MOST // 2])
    others = [worker for worker in workers if worker not in slowest]
    spaced = {others[place * len(others) // (MOST // 2)] for place in range(MOST // 2)}
    return {worker: float(place) for place, worker in enumerate(sorted(slowest | spaced))}


def caption_of(lanes: int, workers: int) -> str:
    """Which workers are drawn, in words for a caption; empty if all are."""
    if lanes == workers:
        return ""
    return f"{lanes} of {workers} workers: the {lanes // 2} with the longest iterations, the others evenly spaced"
