"""How many parts each worker computes, and which: in proportion to its throughput (Wang et al., Eq. 5 to 7).

The paper takes ``n_i = k (s + 1) c_i / sum(c)`` for whole and at most k. Here quotas above k become k and the rest is
shared again among the others; fractions are rounded by largest remainder (ties: the lower id).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from reading.ranges import check_whole
from strategies.gradient_coding.decoding import Mask, check_throughputs, check_tolerance
from strategies.parts.load.allocation import split_by_time

PARTS_PER_WORKER = 4
"""Parts per worker if no number up to twice as many makes all quotas whole."""
WHOLE = 1e-9
"""Distance from a whole number up to which a quota counts as whole."""


def quotas(throughputs: Sequence[float], k: int, s: int) -> list[float]:
    """Parts per worker before rounding: in proportion to ``throughputs`` (any unit), at most ``k``, ``k (s+1)`` in all.

    Raises:
        ValueError: a throughput is not positive, ``k`` is below 1, or ``s`` is no less than the number of workers.
    """
    check_throughputs(throughputs)
    check_tolerance(s, len(throughputs))
    check_whole("k", k, least=1)
    fastest = max(throughputs)
    speeds = [throughput / fastest for throughput in throughputs]
    full: set[int] = set()
    while True:
        left = k * (s + 1 - len(full))
        pace = sum(speed for worker, speed in enumerate(speeds) if worker not in full)
        shares = [float(k) if worker in full else left * speed / pace for worker, speed in enumerate(speeds)]
        over = {worker for worker, share in enumerate(shares) if worker not in full and share > k}
        if not over:
            return shares
        full |= over


def counts(throughputs: Sequence[float], k: int, s: int) -> list[int]:
    """n_i, the number of parts of each worker; they sum to ``k (s + 1)``.

    Raises:
        ValueError: as ``quotas``.
    """
    wanted = quotas(throughputs, k, s)
    held = [int(quota) for quota in wanted]
    most_missed = sorted(range(len(held)), key=lambda worker: (round(held[worker] - wanted[worker], 9), worker))
    for worker in most_missed[: k * (s + 1) - sum(held)]:
        held[worker] += 1
    return held


def counts_by_time(times: Sequence[Callable[[int], float]], k: int, s: int) -> list[int]:
    """As ``counts``, where worker i needs ``times[i](n)`` for n parts, non-decreasing in n: the last ends earliest.

    Every worker has a part if there are enough: one without could not be measured any more.

    Raises:
        ValueError: ``k`` is below 1, or ``s`` is no less than the number of workers.
    """
    check_tolerance(s, len(times))
    check_whole("k", k, least=1)
    total = k * (s + 1)
    least = 1 if total >= len(times) else 0
    return split_by_time(total, times, [least] * len(times), [k] * len(times))


def support(held: Sequence[int], k: int) -> Mask:
    """The support (m, k): ``held[i]`` consecutive parts for worker i, from where i - 1 stopped, modulo ``k``.

    If no count is above k and they sum to ``k (s + 1)``, every part has exactly s + 1 different holders.
    """
    mask = np.zeros((len(held), k), dtype=np.bool_)
    first = 0
    for worker, count in enumerate(held):
        mask[worker, (first + np.arange(count)) % k] = True
        first += count
    return mask


def default_parts(throughputs: Sequence[float], s: int) -> int:
    """The smallest k that makes all quotas whole, of at most 8 parts per worker; 4 per worker if there is none."""
    num_workers = len(throughputs)
    of_one = np.array(quotas(throughputs, 1, s))  # all are in proportion to k
    for k in range(1, 2 * PARTS_PER_WORKER * num_workers + 1):
        wanted = k * of_one
        if (np.abs(wanted - wanted.round()) <= WHOLE * np.maximum(1.0, wanted)).all():
            return k
    return PARTS_PER_WORKER * num_workers
