"""PyTorch's own synchronous training: DistributedDataParallel over gloo, one thread per rank.

One iteration is one optimizer step of every rank: forward, backward with the all-reduce overlapped, SGD. Settings are
the fastest documented ones: gradients are views of the buckets, and batch-norm statistics stay local (as ours do).
"""

from __future__ import annotations

import os
import time
import warnings

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bench import models
from bench.stats import block_median

from . import ranks

WARM_UP = 3


def bsp_step(model: str, num_workers: int, iterations: int, device: str = "cpu", exact: bool = False) -> float:
    """Seconds per iteration (median of blocks) at rank 0. On the ``device`` of all, NCCL refuses more than one rank.

    ``exact``: deterministic kernels in full float32, as ours are; else torch's own choice (TF32 in convolutions).
    """
    with ranks.store_path() as folder:
        stamps = ranks.run(_rank, num_workers, f"{folder}/store", num_workers, model, iterations, device, exact)[0]
    return block_median(stamps)


def _rank(rank: int, store_path: str, world: int, model: str, iterations: int, device: str, exact: bool) -> list[float]:
    ranks.join_gloo(rank, world, store_path)
    if exact:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.set_deterministic_debug_mode("error")
        torch.backends.cudnn.allow_tf32 = False
    warnings.simplefilter("ignore")  # torch 2.13 renames broadcast_buffers; older ones know no other name
    device = "cpu" if device == "fake" else device
    built = models.build(model).to(device)
    module = DistributedDataParallel(built, gradient_as_bucket_view=True, broadcast_buffers=False)
    optimizer = torch.optim.SGD(module.parameters(), lr=models.LEARNING_RATE)
    inputs, labels = (part.to(device) for part in models.batch(model, rank))
    stamps = [time.perf_counter()]
    for _ in range(iterations + WARM_UP):
        models.backward(module, inputs, labels)
        optimizer.step()
        if device != "cpu":
            torch.cuda.synchronize()  # otherwise it is the time to launch kernels
        stamps.append(time.perf_counter())
    dist.barrier()
    return stamps[WARM_UP:]
