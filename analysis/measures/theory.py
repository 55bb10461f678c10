"""Closed forms for simple jobs, which a runtime must reproduce if nothing violates the assumptions.

They check runtimes and do not replace them: no queues, no faults, no data that runs out midway. Times are in seconds,
sizes in bytes, rates in bytes per second, so a gigabit per second is 125e6. Invalid arguments raise ``ValueError``
with their name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, inf, nan
from typing import Any

import numpy as np

STEPS = (-40.0, -8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 690.0)
"""Points that split the integral over the logarithm of a distance: dense near the bulk; it ends at e^690."""
TOLERANCE = 1e-11
"""Tolerance of each part, relative to the spread of the bulk."""
MAX_ERROR = 1e-6
"""Largest estimated error, relative to the result and that spread, that counts as converged."""


# ---- random iteration times -----------------------------------------------------------------------------------------


def kth_of_n_s(iteration_s: Any, k: int, n: int) -> float:
    """Expected k-th smallest of n independent iteration times.

    With F the distribution and I the regularised incomplete beta function, P(X_(k) > x) = I(1 - F(x); n - k + 1, k);
    for any m, E X_(k) = m + integral of P(X_(k) > x) above m - integral of P(X_(k) <= x) below it. Here m is the median
    of X_(k). No density is needed, and no small number is computed by subtraction from one.

    Source: David and Nagaraja, *Order Statistics*, 3rd ed., sections 2.1 and 3.1.

    Args:
        iteration_s: a frozen continuous distribution of ``scipy.stats``.
        k: 1 (the fastest) to n (the slowest).
        n: number of independent times.

    Returns:
        Seconds.

    Raises:
        ValueError: for k or n out of range, another kind of distribution, or an infinite expectation.
    """
    from scipy.special import betainc, betaincinv

    _whole("n", n, 1)
    if not (_is_whole(k) and 1 <= k <= n):
        raise ValueError(f"k={k}: must be a whole number from 1 to n ({n})")
    if not all(hasattr(iteration_s, name) for name in ("pdf", "cdf", "sf", "ppf")):
        raise ValueError(f"iteration_s={iteration_s!r}: must be a frozen continuous distribution of scipy.stats")
    early, middle, late = (float(iteration_s.ppf(betaincinv(k, n - k + 1, q))) for q in (0.1, 0.5, 0.9))
    spread = late - early

    def longer(by: float) -> float:
        return float(betainc(n - k + 1, k, iteration_s.sf(middle + by)))

    def shorter(by: float) -> float:
        return float(betainc(k, n - k + 1, iteration_s.cdf(middle - by)))

    above, above_error = _integral(longer, spread)
    below, below_error = _integral(shorter, spread)
    expected = middle + above - below
    if not above_error + below_error <= MAX_ERROR * (abs(expected) + spread):
        raise ValueError(f"iteration_s: the expectation of place {k} of {n} does not converge; is the mean infinite?")
    return expected


def _integral(probability: Callable[[float], float], spread: float) -> tuple[float, float]:
    """Integral of a decreasing ``probability`` from 0 to infinity, with its estimated error.

    It integrates over the logarithm u of the distance in units of ``spread``. There even a power law decreases
    exponentially, and features at any scale are found. The remainder at the far end counts as error.
    """
    from scipy.integrate import quad

    if not spread > 0.0:
        return nan, inf

    def density(u: float) -> float:
        return probability(spread * exp(u)) * exp(u)

    total = error = 0.0
    with np.errstate(over="ignore", under="ignore"):
        for start, stop in pairwise(STEPS):
            if start > 0.0 and density(start) == 0.0:
                break
            part = quad(density, start, stop, epsabs=TOLERANCE, epsrel=TOLERANCE, limit=200, full_output=1)
            total, error = total + part[0], error + part[1]
        return spread * total, spread * (error + density(STEPS[-1]))


def bsp_round_s(iteration_s: Any, num_workers: int) -> float:
    """Expected iteration time of BSP, seconds: the slowest of ``num_workers`` independent times of one distribution.

    For exponential times it is their mean times 1 + 1/2 + ... + 1/n. Arguments and source as for :func:`kth_of_n_s`.
    """
    _whole("num_workers", num_workers, 1)
    return kth_of_n_s(iteration_s, num_workers, num_workers)


def backup_round_s(iteration_s: Any, num_workers: int, num_backup: int) -> float:
    """Expected iteration time with backup workers, seconds: the (n - b)-th of n times, if all start together.

    That holds if late workers abort at once. Otherwise they are late for the next iteration, too.

    Source: Chen et al., "Revisiting distributed synchronous SGD", 2016 (their N is n - b); :func:`kth_of_n_s`.

    Args:
        iteration_s: a frozen continuous distribution of ``scipy.stats``.
        num_workers: all workers, backups included.
        num_backup: number of workers not waited for; 0 is BSP.
    """
    _whole("num_workers", num_workers, 1)
    if not (_is_whole(num_backup) and 0 <= num_backup < num_workers):
        raise ValueError(f"num_backup={num_backup}: must be a whole number from 0 to num_workers - 1")
    return kth_of_n_s(iteration_s, num_workers - num_backup, num_workers)


# ---- constant iteration times ---------------------------------------------------------------------------------------


def asp_samples_per_s(batch_samples: Sequence[int], iteration_s: Sequence[float]) -> float:
    """Throughput of workers that do not wait for each other: the sum of b_i / T_i.

    With equal batches it is n b over the harmonic mean of the times, where BSP has n b over their maximum. For random
    times that are independent between iterations, T_i is their mean (the elementary renewal theorem: Ross, *Stochastic
    Processes*, 2nd ed., section 3.3).

    Args:
        batch_samples: batch of each worker.
        iteration_s: iteration time of each worker for its batch.
    """
    batches, times = _per_worker(batch_samples, iteration_s)
    return float(np.sum(batches / times))


def bsp_jct_s(num_samples: int, batch_samples: Sequence[int], iteration_s: Sequence[float]) -> float:
    """Job completion time of BSP with constant times: ceil(N / B) max T_i, seconds.

    B is the global batch, the sum of ``batch_samples``. A partial last iteration takes as long as the others.

    Args:
        num_samples: N, over all epochs; barriers follow each other, and nothing else costs time.
        batch_samples: batch of each worker.
        iteration_s: iteration time of each worker for its batch.
    """
    _whole("num_samples", num_samples, 0)
    batches, times = _per_worker(batch_samples, iteration_s)
    return -(-num_samples // int(batches.sum())) * float(times.max())


def asp_jct_bounds_s(
    num_samples: int, batch_samples: Sequence[int], iteration_s: Sequence[float]
) -> tuple[float, float]:
    """Bounds of the last arrival of ASP with constant times, seconds: N / R to N / R + max T_i, R the throughput.

    All workers draw from one queue, from time 0 on, until it is empty. Until t, worker i has completed at most b_i t /
    T_i samples and has begun at least as many. The first bounds the last arrival from below; the second bounds the last
    draw from above by N / R, and the drawn samples arrive within one T_i.

    Args:
        num_samples: N, of one epoch (or of several that overlap).
        batch_samples: batch of each worker.
        iteration_s: iteration time of each worker for a batch, partial last ones included.
    """
    _whole("num_samples", num_samples, 0)
    batches, times = _per_worker(batch_samples, iteration_s)
    if not num_samples:
        return 0.0, 0.0
    low = num_samples / float(np.sum(batches / times))
    return low, low + float(times.max())


# ---- networks -------------------------------------------------------------------------------------------------------


def ring_all_reduce_s(num_workers: int, num_bytes: float, link_bytes_per_s: float, latency_s: float = 0.0) -> float:
    """Ring all-reduce of S bytes among n workers: 2 (n - 1) / n S / bandwidth + 2 (n - 1) latency, seconds.

    n - 1 steps reduce the parts, n - 1 distribute the sums; in each step every worker sends S / n bytes.

    Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.

    Args:
        num_workers: n; a single worker takes no time.
        num_bytes: S, size of every worker's vector.
        link_bytes_per_s: rate of the slowest link of the ring, in its direction.
        latency_s: latency of one message.
    """
    _whole("num_workers", num_workers, 1)
    _number("num_bytes", num_bytes)
    _number("link_bytes_per_s", link_bytes_per_s, positive=True)
    steps = 2 * (num_workers - 1)
    return steps * (num_bytes / num_workers / link_bytes_per_s + _number("latency_s", latency_s))


def push_s(
    num_bytes: float,
    num_workers: int,
    num_servers: int,
    *,
    uplink_bytes_per_s: float,
    downlink_bytes_per_s: float,
    latency_s: float = 0.0,
) -> float:
    """All workers push S bytes at once to m servers, an equal part to each: max(S / up, n S / (m down)) + latency.

    Links are shared max-min fairly. With equal links all flows get the same rate, and either the workers' uplinks (m
    flows each) or the servers' downlinks (n flows each) are saturated until the end. A pull is the same with directions
    swapped.

    Source: Jiang et al., "A unified architecture for accelerating distributed DNN training in heterogeneous GPU/CPU
    clusters", OSDI 2020 (communication time of parameter servers on machines of their own).

    Args:
        num_bytes: S, size of the whole vector.
        num_workers: n, all pushing at the same time.
        num_servers: m.
        uplink_bytes_per_s: rate of every worker's uplink.
        downlink_bytes_per_s: rate of every server's downlink.
        latency_s: latency of a message; messages to different servers travel in parallel.
    """
    _number("num_bytes", num_bytes)
    _whole("num_workers", num_workers, 1)
    _whole("num_servers", num_servers, 1)
    sent_s = num_bytes / _number("uplink_bytes_per_s", uplink_bytes_per_s, positive=True)
    received_s = num_bytes / _number("downlink_bytes_per_s", downlink_bytes_per_s, positive=True)
    return max(sent_s, num_workers / num_servers * received_s) + _number("latency_s", latency_s)


# ---- checks ---------------------------------------------------------------------------------------------------------


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _whole(name: str, value: int, least: int) -> None:
    if not _is_whole(value) or value < least:
        raise ValueError(f"{name}={value}: must be a whole number, {least} or more")


def _number(name: str, value: float, *, positive: bool = False) -> float:
    if not 0 <= value < inf or (positive and not value):
        raise ValueError(f"{name}={value}: must be finite and {'more than 0' if positive else '0 or more'}")
    return float(value)


def _per_worker(
    batch_samples: Sequence[int], iteration_s: Sequence[float]
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Both arguments as float arrays [workers], checked."""
    for batch in batch_samples:
        _whole("batch_samples", batch, 1)
    for time_s in iteration_s:
        _number("iteration_s", time_s, positive=True)
    if not len(batch_samples):
        raise ValueError("batch_samples: there must be at least one worker")
    if len(batch_samples) != len(iteration_s):
        raise ValueError(f"iteration_s: has {len(iteration_s)} workers, batch_samples has {len(batch_samples)}")
    return np.array(batch_samples, dtype=np.int64), np.array(iteration_s, dtype=np.float64)
