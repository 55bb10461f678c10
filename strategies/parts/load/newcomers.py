"""The batch of a worker that was not there when sizes were split, and that of a round with many of them (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median_low


def size_of(sizes: Mapping[int, int], worker: int) -> int:
    """The samples of ``worker`` by ``sizes``; a worker that is not in there gets the lower median of the others.

    So an elastic job keeps the batch per worker of its start until a policy that resizes has split it again.
    """
    return sizes[worker] if worker in sizes else median_low(sizes.values())


def samples_of_round(global_batch_samples: int, least: int) -> int:
    """Samples of a round: those of the global batch, or one for each worker or part, where so many have joined.

    Nobody can compute no sample at all.
    """
    return max(global_batch_samples, least)
