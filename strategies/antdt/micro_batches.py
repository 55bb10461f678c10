"""AntDT-DD's problem (Eq. 4): batch sizes and numbers of accumulated micro-batches per type of device (pure).

``minimise max_k C_k F_k(B_k)  subject to  sum_k n_k C_k B_k = B,  low_k <= B_k <= high_k,  least <= C_k <= most``

The equation need not have a solution in whole samples that are equal for all workers of a type, so totals are given to
workers: for every choice of the C_k, an exact min-max split of B in which worker i of type k gets a total in
[C_k low_k, C_k high_k], computed as C_k micro-batches of near-equal size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil
from typing import NamedTuple

from strategies.parts.load.allocation import relax, split_by_time

EARLIER = 1 - 1e-9
"""Plans whose times differ by less count as equal; the one with fewer micro-batches is taken."""


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """A type of device: ``seconds(b)`` of one micro-batch, non-decreasing, and its bounds in samples.

    ``low_samples`` is the saturation point, below which a micro-batch is hardly faster; ``high_samples`` is what memory
    holds (None: any).
    """

    name: str
    seconds: Callable[[int], float]
    low_samples: int = 1
    high_samples: int | None = None

    def total_s(self, samples: int, accum: int) -> float:
        """Seconds of ``samples`` in ``accum`` micro-batches that differ by at most one."""
        share, rest = divmod(samples, accum)
        larger_s = rest * self.seconds(share + 1) if rest else 0.0
        return larger_s + (accum - rest) * self.seconds(share)

    def bounds(self, accum: int) -> tuple[int, int | None]:
        """Least and most samples of a worker that accumulates ``accum`` micro-batches."""
        return accum * self.low_samples, None if self.high_samples is None else accum * self.high_samples


class BatchPlan(NamedTuple):
    """``accum[k]`` micro-batches for type k, ``totals[i]`` samples for worker i; the slowest needs ``slowest_s``."""

    accum: tuple[int, ...]
    totals: tuple[int, ...]
    slowest_s: float
    below_saturation: bool = False


def solve(total: int, devices: Sequence[DeviceLimits], types: Sequence[int], accums: range) -> BatchPlan:
    """The best plan for workers of ``types`` (indices into ``devices``).

    Least time first, then fewest micro-batches, then the lexicographically smallest C.

    Raises:
        ValueError: no C in ``accums`` can reach ``total``; the message says which bound is in the way.
    """
    counts = Counter(types)

    def micro_batches(accum: tuple[int, ...]) -> int:
        return sum(counts[kind] * times for kind, times in enumerate(accum))

    best: BatchPlan | None = None
    for accum in sorted(product(accums, repeat=len(devices)), key=lambda accum: (micro_batches(accum), accum)):
        if not _reaches(total, devices, counts, accum, None if best is None else best.slowest_s * EARLIER):
            continue
        best = _split(total, devices, types, accum)
    if best is None:
        raise ValueError(_obstacle(total, devices, counts, accums))
    return best


def solve_anyhow(total: int, devices: Sequence[DeviceLimits], types: Sequence[int], accums: range) -> BatchPlan:
    """As :func:`solve`; if that is impossible, below saturation, and at worst beyond the memory bounds.

    For running jobs, whose bounds may have become impossible when a worker left.
    """
    try:
        return solve(total, devices, types, accums)
    except ValueError:
        eased = [replace(device, low_samples=1) for device in devices]
    try:
        return solve(total, eased, types, accums)._replace(below_saturation=True)
    except ValueError:
        highs = [eased[kind].bounds(accums[-1])[1] for kind in types]
        _, more = relax(total, [0] * len(types), highs)
        tops = {kind: None if top is None else ceil(top / accums[-1]) for kind, top in zip(types, more, strict=True)}
        wider = [replace(device, high_samples=tops.get(kind)) for kind, device in enumerate(eased)]
        return solve(total, wider, types, range(1, accums[-1] + 1))._replace(below_saturation=True)


def _reaches(
    total: int, devices: Sequence[DeviceLimits], counts: Counter[int], accum: Sequence[int], within_s: float | None
) -> bool:
    """Whether ``total`` samples fit the bounds and, unless None, finish within ``within_s`` seconds."""
    least, most = 0, 0.0
    for kind, device in enumerate(devices):
        low, high = device.bounds(accum[kind])
        least += counts[kind] * low
        top = total if high is None else min(high, total)
        most += counts[kind] * (top if within_s is None else _most_within(device, accum[kind], low, top, within_s))
    return least <= total <= most


def _most_within(device: DeviceLimits, accum: int, low: int, high: int, within_s: float) -> float:
    """The largest total in [low, high] that finishes in time; minus infinity if not even the smallest does."""
    if low > high or device.total_s(low, accum) > within_s:
        return float("-inf")
    while low < high:
        middle = (low + high + 1) // 2
        if device.total_s(middle, accum) <= within_s:
            low = middle
        else:
            high = middle - 1
    return low


def _split(total: int, devices: Sequence[DeviceLimits], types: Sequence[int], accum: tuple[int, ...]) -> BatchPlan:
    bounds = [devices[kind].bounds(accum[kind]) for kind in types]
    times = [partial(_time_and_size, devices[kind], accum[kind]) for kind in types]
    totals = split_by_time(total, times, [low for low, _ in bounds], [high for _, high in bounds])
    slowest_s = max(time(samples)[0] for time, samples in zip(times, totals, strict=True))
    return BatchPlan(accum, tuple(totals), slowest_s)


def _time_and_size(device: DeviceLimits, accum: int, samples: int) -> tuple[float, int]:
    """Sort key: time, then size, so that equal devices get equal sizes where a curve is flat."""
    return device.total_s(samples, accum), samples


def _obstacle(total: int, devices: Sequence[DeviceLimits], counts: Counter[int], accums: range) -> str:
    """The bounds that no number of micro-batches can meet, as a message."""
    lows = sum(counts[kind] * device.bounds(accums[0])[0] for kind, device in enumerate(devices))
    highs = [device.bounds(accums[-1])[1] for device in devices]
    if lows > total:
        each = ", ".join(f"{device.name} {device.low_samples}" for device in devices)
        return f"the least micro-batches ({each}), {accums[0]} per worker, sum to {lows} samples, more than the {total}"
    most = sum(counts[kind] * (total if high is None else high) for kind, high in enumerate(highs))
    each = ", ".join(f"{device.name} {device.high_samples}" for device in devices if device.high_samples is not None)
    if most < total:
        return (
            f"the largest micro-batches ({each}), {accums[-1]} per worker, sum to {most} samples, less than the {total}"
        )
    spans = ", ".join(f"{device.name} {device.low_samples}..{device.high_samples}" for device in devices)
    return f"no number of micro-batches from {accums[0]} to {accums[-1]} within {spans} sums to {total} samples"
