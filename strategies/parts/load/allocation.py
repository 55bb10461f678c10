"""Splits of a batch by which the slowest worker finishes as early as possible: exact, in whole samples; newcomers.

``minimise max_i F_i(b_i)  subject to  sum b_i = total,  low_i <= b_i <= high_i`` (AntDT Eq. 3 with bounds). Handing out
one sample after another to the worker that would then finish first is optimal for every non-decreasing F_i; rounding
proportional shares by largest remainder is not. Ties go to the lower index, so equal speeds give sizes that differ by
at most one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from math import ceil, inf, isfinite
from statistics import median, median_low

import numpy as np

from strategies.protocol import split_evenly


def size_of(sizes: Mapping[int, int], worker: int) -> int:
    """The samples of ``worker`` by ``sizes``; a worker that is not in there gets the lower median of the others.

    So an elastic job keeps the batch per worker of its start until a policy that resizes has split it again.
    """
    return sizes[worker] if worker in sizes else median_low(sizes.values())


def samples_of_round(global_batch_samples: int, least: int) -> int:
    """Samples of a round: the global batch, or one for each worker or part if there are more of these.

    A worker cannot compute zero samples.
    """
    return max(global_batch_samples, least)


def round_sizes(
    total: int,
    workers: Sequence[int],
    speeds: Mapping[int, float],
    newcomers: Collection[int] = (),
    base_samples: float = 0.0,
    returning: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Split ``total`` samples over ``workers`` so that, by ``speeds`` in samples/s, the last one finishes earliest.

    The fixed cost of an iteration equals the cost of ``base_samples`` samples
    (:class:`strategies.antdt.detector.Base`).

    Without any speeds the split is even. A worker without one counts as fast as the median of the others; a newcomer
    gets ``total / len(workers)`` in its first round whatever the speeds say, because nothing has been measured yet.
    Every worker gets at least one sample if there are enough, because otherwise it could not be measured again. With
    ``returning`` sizes, the result only moves from these towards the even split.
    """
    even = dict(zip(workers, split_evenly(total, len(workers)), strict=True))
    known = [speeds[worker] for worker in workers if worker in speeds]
    if not known or len(newcomers) >= len(workers):
        return even
    share, usual = total // len(workers), median(known)
    lows = [share if worker in newcomers else 1 for worker in workers]
    highs = [share if worker in newcomers else None for worker in workers]
    if returning is not None and returning.keys() == even.keys() and not newcomers:
        pairs = [(returning[worker], even[worker]) for worker in workers]
        lows, highs = [min(pair) for pair in pairs], [max(pair) for pair in pairs]
    lows, highs = relax(total, lows, highs)
    sizes = split_min_max(total, [speeds.get(worker, usual) for worker in workers], lows, highs, base_samples)
    return dict(zip(workers, sizes, strict=True))


def slowest_s(sizes: Mapping[int, int], speeds: Mapping[int, float], base_samples: float = 0.0) -> float:
    """Seconds until the last worker with a known speed has finished its part."""
    return max(
        ((sizes[worker] + base_samples) / speed for worker, speed in speeds.items() if worker in sizes), default=0.0
    )


def extremes(sizes: Mapping[int, int], workers: Sequence[int]) -> dict[str, int]:
    """The smallest and the largest size of a round of these workers, for the log."""
    own = [sizes[worker] for worker in workers]
    return {"smallest_batch": min(own), "largest_batch": max(own)}


High = int | None
"""Upper bound in samples; None: no bound."""
Time = float | tuple[float, int]
MARGIN, MOST_HALVINGS = 1e-9, 100
"""Fraction of the finishing time that is left to the greedy; steps of the search for that time."""


def split_min_max(
    total: int, speeds: Sequence[float], lows: Sequence[int], highs: Sequence[High], base_samples: float = 0.0
) -> list[int]:
    """``total`` samples over workers of ``speeds`` samples per second, within bounds: least ``max (b_i + c) / v_i``.

    ``base_samples`` is c, the fixed cost of an iteration as a number of samples.

    Raises:
        ValueError: no split keeps the bounds (the message says which), or a speed is not positive and finite.
    """
    check_bounds(total, lows, highs)
    for index, speed in enumerate(speeds):
        if not (isfinite(speed) and speed > 0):
            raise ValueError(f"speed {speed} of worker {index}: must be positive and finite")
    start = _seed(total, speeds, lows, highs, base_samples)
    return _hand_out(total, start, highs, lambda index, samples: (samples + base_samples) / speeds[index])


def split_by_time(
    total: int, times: Sequence[Callable[[int], Time]], lows: Sequence[int], highs: Sequence[High]
) -> list[int]:
    """As ``split_min_max``, where worker i needs ``times[i](b)`` seconds, non-decreasing: least ``max times[i](b_i)``.

    A time may be a tuple whose further entries decide between equal seconds.

    Raises:
        ValueError: no split keeps the bounds (the message says which).
    """
    check_bounds(total, lows, highs)
    return _hand_out(total, list(lows), highs, lambda index, samples: times[index](samples))


def check_bounds(total: int, lows: Sequence[int], highs: Sequence[High]) -> None:
    """Raise ``ValueError`` naming the bounds that no split of ``total`` samples can keep."""
    for index, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if high is not None and low > high:
            raise ValueError(f"worker {index}: lower bound of {low} samples above its upper bound of {high}")
    if sum(lows) > total:
        raise ValueError(f"the lower bounds sum to {sum(lows)} samples, more than the {total} to split")
    if (most := _sum_of_highs(highs)) < total:
        raise ValueError(f"the upper bounds sum to {most:g} samples, less than the {total} to split")


def check_batch_bounds(num_workers: int, total: int, low: int, high: int | None) -> None:
    """Raise ``ValueError`` naming the bound per worker that no split of ``total`` samples keeps."""
    if low * num_workers > total:
        raise ValueError(
            f"min_batch_samples={low}: {num_workers} workers would need {low * num_workers} samples, the global batch "
            f"has {total}"
        )
    if high is not None and high * num_workers < total:
        raise ValueError(
            f"max_batch_samples={high}: {num_workers} workers can take {high * num_workers} samples, the global batch "
            f"has {total}"
        )


def relax(total: int, lows: Sequence[int], highs: Sequence[High]) -> tuple[list[int], list[High]]:
    """Bounds that admit ``total``, for a running job that lost a worker; unchanged if they admit it already.

    Lower bounds are relaxed first, the largest before the others; then upper bounds, all by the same factor.
    """
    eased_lows, eased_highs = list(lows), list(highs)
    most = _sum_of_highs(highs)
    if most < total:
        eased_highs = [None if not most else ceil((high or 0) * total / most) for high in highs]
    if sum(lows) > total:
        cut = max(level for level in range(max(lows)) if sum(min(low, level) for low in lows) <= total)
        eased_lows = [min(low, cut) for low in lows]
    return eased_lows, eased_highs


def _sum_of_highs(highs: Sequence[High]) -> float:
    return sum(inf if high is None else high for high in highs)


def _seed(
    total: int, speeds: Sequence[float], lows: Sequence[int], highs: Sequence[High], base_samples: float
) -> list[int]:
    """The greedy's state shortly before its end: every sample that takes less than some time.

    That time is the continuous optimum, found by bisection from below as exactly as the margin that is taken off, which
    is far above the rounding of a float: within it the greedy itself decides, so the result is the one from the lower
    bounds on, sample for sample.
    """
    speed, low = np.asarray(speeds, dtype=float), np.asarray(lows, dtype=float)
    high = np.asarray([total if most is None else min(most, total) for most in highs], dtype=float)
    high = np.maximum(high, low)
    early, late = 0.0, float(np.max((high + base_samples) / speed, initial=0.0))
    for _ in range(MOST_HALVINGS):
        if late - early <= MARGIN * late:
            break
        middle = (early + late) / 2
        if np.minimum(np.maximum(middle * speed - base_samples, low), high).sum() <= total:
            early = middle
        else:
            late = middle
    start = np.minimum(np.maximum(np.floor(early * (1 - MARGIN) * speed - base_samples), low), high)
    found: list[int] = start.astype(np.int64).tolist()
    return found


def _hand_out(total: int, samples: list[int], highs: Sequence[High], time: Callable[[int, int], Time]) -> list[int]:
    """The greedy: the next sample goes to the worker that would finish first with one more."""
    room = [index for index, high in enumerate(highs) if high is None or samples[index] < high]
    heap = [(time(index, samples[index] + 1), index) for index in room]
    heapq.heapify(heap)
    for _ in range(total - sum(samples)):
        _, index = heap[0]
        samples[index] += 1
        if samples[index] == highs[index]:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (time(index, samples[index] + 1), index))
    return samples
