"""torch.distributed over gloo: send and recv of preallocated float32 tensors between two ranks.

One iteration: rank 0 sends the gradient and receives the parameters; rank 1 receives, then sends. No size message, no
arithmetic: the least that a parameter server over gloo can do.
"""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from bench.stats import median_gap

from . import ranks

WARM_UP = 5


def push_pull(nbytes: int, iterations: int) -> float:
    """Median seconds of one push and one pull of ``nbytes`` each."""
    with ranks.store_path() as folder:
        stamps, _ = ranks.run(_rank, 2, f"{folder}/store", nbytes, iterations)
    return median_gap(stamps)


def _rank(rank: int, store_path: str, nbytes: int, iterations: int) -> list[float]:
    ranks.join_gloo(rank, 2, store_path)
    gradient, parameters = torch.zeros(nbytes // 4), torch.zeros(nbytes // 4)
    dist.barrier()
    stamps = [time.perf_counter()]
    for _ in range(iterations + WARM_UP):
        if rank == 0:
            dist.send(gradient, 1)
            dist.recv(parameters, 1)
        else:
            dist.recv(gradient, 0)
            dist.send(parameters, 0)
        stamps.append(time.perf_counter())
    dist.barrier()
    return stamps[WARM_UP:]
