"""Our ring alone, between bare processes: the classes of the live runtime without a coordinator."""

from __future__ import annotations

import os
import time
from multiprocessing import get_context
from typing import Any

from bench.peers import ranks
from bench.stats import median_gap
from runtime.core.vectors import aligned_vector
from runtime.live.tasks.collectives.ring import Ring
from runtime.live.transport.acceptor import Acceptor
from runtime.live.transport.address import listen
from runtime.live.transport.auth import Identity
from runtime.live.transport.messages import Peer

WARM_UP = 5


def all_reduce(nbytes: int, num_ranks: int, iterations: int) -> float:
    """Median seconds of one all-reduce of ``nbytes``, at rank 0."""
    doors = [listen("tcp") for _ in range(num_ranks)]
    barrier = get_context("fork").Barrier(num_ranks)
    peers = [Peer(rank, 0, address) for rank, (_, address) in enumerate(doors)]
    secret = os.urandom(32)
    try:
        stamps = ranks.run(_rank, num_ranks, doors, barrier, secret, peers, nbytes, iterations)
    finally:
        for sock, _ in doors:
            sock.close()
    return median_gap(stamps[0])


def _rank(
    rank: int, doors: Any, barrier: Any, secret: bytes, peers: list[Peer], nbytes: int, iterations: int
) -> list[float]:
    vector = aligned_vector(nbytes // 4)
    vector[:] = 1.0
    ring = Ring(Identity("worker", rank), secret, Acceptor(secret, [doors[rank][0]]), lambda: None)
    ring.form(0, peers)
    barrier.wait(ranks.TIMEOUT_S)
    stamps = [time.perf_counter()]
    for _ in range(iterations + WARM_UP):
        ring.all_reduce(vector)
        if not (vector[0] == vector[-1] == len(peers)):
            raise RuntimeError(f"the sum of {len(peers)} ones is {vector[0]} and {vector[-1]}")
        vector[:] = 1.0
        stamps.append(time.perf_counter())
    barrier.wait(ranks.TIMEOUT_S)
    return stamps[WARM_UP:]
