"""Throughput of an asynchronous job with parameter servers, from the cores that it has (DLRover Eq. 1; pure)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class StepCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one step of one worker takes.

    Work is in any unit, of which one core does ``core_speed`` a second (the paper's r).
    """

    batch_samples: int
    io_s: float
    """Seconds for data and transfers (t_IO)."""
    compute_work: float
    """Of the gradient on the worker (W_compute)."""
    update_work: float
    """Of the update on all servers together (W_update)."""
    compute_cores: float
    """More cores than these do not make the gradient faster (w_hat)."""
    update_cores: float
    """More cores than these, of all servers, do not make the update of one gradient faster (s_hat)."""
    core_speed: float = 1.0


def throughput(cost: StepCost, worker_cores: Sequence[float], server_cores: float) -> float:
    """Samples per second of workers with so many cores each, and servers with so many cores in all (Eq. 1).

    As printed, Eq. 1 takes ``min(s_total, s_hat)`` cores for every update, so it never sees how many workers there are,
    although the text says that more workers do not help once ``N_w s_hat`` exceeds s_total. Here updates that together
    ask for more cores than there are get equal parts of them.
    """
    num_workers = len(worker_cores)
    if not num_workers:
        return 0.0
    enough = num_workers * cost.update_cores <= server_cores
    available = server_cores if enough else server_cores / num_workers
    update_s = cost.update_work / (cost.core_speed * min(available, cost.update_cores))
    return sum(
        cost.batch_samples
        / (cost.io_s + cost.compute_work / (cost.core_speed * min(cores, cost.compute_cores)) + update_s)
        for cores in worker_cores
    )
