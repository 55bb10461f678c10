"""The sizes of a round, where some workers may be new or not measured (pure; AntDT section VI-A, Eq. 3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median

from strategies.parts.load.allocation import relaxed, split_min_max
from strategies.protocol import split_evenly


def round_sizes(
    total: int,
    workers: Sequence[int],
    speeds: Mapping[int, float],
    newcomers: Collection[int] = (),
    base_samples: float = 0.0,
    returning: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Split ``total`` samples over ``workers`` so that, by ``speeds`` in samples/s, the last one finishes earliest.

    The fixed cost of an iteration equals that of ``base_samples`` samples (:class:`strategies.antdt.pace.Base`).

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
    lows, highs = relaxed(total, lows, highs)
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
