"""torch.distributed's all_reduce over gloo of one float32 tensor, as a training step would call it."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from bench.stats import median_gap

from . import ranks

WARM_UP = 5


def all_reduce(nbytes: int, num_ranks: int, iterations: int) -> float:
    """Median seconds of one all-reduce of ``nbytes``, at rank 0."""
    with ranks.store_path() as folder:
        return median_gap(ranks.run(_rank, num_ranks, f"{folder}/store", num_ranks, nbytes, iterations)[0])


def _rank(rank: int, store_path: str, world: int, nbytes: int, iterations: int) -> list[float]:
    ranks.join_gloo(rank, world, store_path)
    vector = torch.ones(nbytes // 4)
    dist.barrier()
    stamps = [time.perf_counter()]
    for _ in range(iterations + WARM_UP):
        dist.all_reduce(vector)
        vector.fill_(1.0)
        stamps.append(time.perf_counter())
    dist.barrier()
    return stamps[WARM_UP:]
