"""torch.distributed.rpc (tensorpipe): one synchronous call that carries the gradient there and the parameters back.

One iteration: ``rpc_sync(server, exchange, (gradient,))``; the server returns its parameter tensor. Tensorpipe chooses
its own transports and channels, shared memory and cross-memory attach included; no arithmetic.
"""

from __future__ import annotations

import time
import warnings

import torch
from torch.distributed import rpc

from bench.stats import median_gap

from . import ranks

WARM_UP = 5
_parameters = torch.zeros(0)


def push_pull(nbytes: int, iterations: int) -> float:
    """Median seconds of one push and one pull of ``nbytes`` each."""
    return median_gap(ranks.run(_rank, 2, ranks.free_port(), nbytes, iterations)[0])


def _rank(rank: int, port: int, nbytes: int, iterations: int) -> list[float]:
    global _parameters
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # upstream deprecates what it still documents
    _parameters = torch.zeros(nbytes // 4)
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}", rpc_timeout=ranks.TIMEOUT_S)
    rpc.init_rpc(("worker", "server")[rank], rank=rank, world_size=2, rpc_backend_options=options)
    stamps = [] if rank else _work(nbytes, iterations + WARM_UP)[WARM_UP:]
    rpc.shutdown(timeout=int(ranks.TIMEOUT_S))
    return stamps


def _work(nbytes: int, iterations: int) -> list[float]:
    gradient = torch.zeros(nbytes // 4)
    stamps = [time.perf_counter()]
    for _ in range(iterations):
        rpc.rpc_sync("server", exchange, args=(gradient,))
        stamps.append(time.perf_counter())
    return stamps


def exchange(gradient: torch.Tensor) -> torch.Tensor:
    """Runs in the server."""
    assert gradient.shape == _parameters.shape
    return _parameters
