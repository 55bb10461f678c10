"""The time of a sum around a ring of workers on machines that nobody else uses (pure).

Everybody sends 2 (n - 1) messages of an nth of the vector to the next worker. Message m of a worker leaves when its own
message before has left and when it has added m messages; so the time of each event is the later of two others, plus
what lies between: a max-plus system (Baccelli, Cohen, Olsder and Quadrat, Synchronization and Linearity, 1992), whose
rate is the slower of the mean hop around the ring and the busiest sender. A ring makes fewer than two rounds, which is
too few for a mean: of 12 workers on two machines a message crosses four times, and not 22 / 12 times two. So the system
is followed message by message.

A message leaves a machine only from its last worker and comes only to its first, so no two share a link, and the times
of links, latencies and adding are exact. Workers that carry messages on the same cores are assumed to do so always at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from runtime.cluster.hosts import Host
from runtime.virtual.costs import Costs
from runtime.virtual.machines.sites import THREAD_CORES

Floats = NDArray[np.float64]
"""One per worker, in the ring's order."""


def ring_s(
    costs: Costs, host: Host, workers: Sequence[int], num_bytes: float, *, link_bytes_per_s: float = inf
) -> float:
    """Seconds from when all workers begin until the last one has the sum.

    Args:
        costs: what messages cost.
        host: its cores and latency, of each machine.
        workers: on each machine, in the ring's order.
        num_bytes: of a message, an nth of the vector.
        link_bytes_per_s: of payload, that leave a machine, and that reach it.
    """
    size, cores = sum(workers), host.cores or inf
    machine = np.repeat(np.arange(len(workers)), workers)
    leaves = machine != np.roll(machine, -1)
    carry_s = num_bytes * np.where(leaves, costs.carry_per_byte_s, costs.within_per_byte_s)
    add_s = num_bytes * costs.ring_per_byte_s
    coming_s = np.roll(carry_s, 1)
    threads = max(THREAD_CORES, costs.worker_cores)
    of_worker_s = np.maximum(np.maximum(coming_s, carry_s), (coming_s + carry_s) / threads)
    of_machine_s = np.bincount(machine, coming_s + carry_s) / cores
    carrying_s = np.maximum(of_worker_s, of_machine_s[machine])
    crowd = np.maximum(1.0, np.asarray(workers) / cores)[machine]
    send_s = np.maximum(carrying_s, np.roll(carrying_s, -1))
    send_s = np.maximum(send_s, np.where(leaves, num_bytes / link_bytes_per_s, 0.0))
    busy_s = np.maximum(
        (coming_s + carry_s + add_s) / threads,
        (of_machine_s + np.asarray(workers) * add_s / cores)[machine],
    )
    travel_s = send_s + costs.latency_s + costs.ring_step_s + np.where(leaves, 2 * host.latency_s, 0.0)
    return _end_s(np.maximum(send_s, busy_s), travel_s, add_s * crowd, 2 * (size - 1))


def _end_s(between_s: Floats, travel_s: Floats, add_s: Floats, messages: int) -> float:
    """When the last of so many messages of each worker is added.

    Args:
        between_s: least time between two messages of a worker.
        travel_s: from when its message leaves until the next worker has it.
        add_s: that a worker takes to add one.
        messages: of each worker.
    """
    sent_s = added_s = np.zeros(len(between_s))
    for _ in range(messages):
        added_s = np.maximum(added_s, np.roll(sent_s + travel_s, 1)) + add_s
        sent_s = np.maximum(sent_s + between_s, added_s)
    return float(added_s.max())
