"""The batch of a worker that was not there when sizes were split (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median_low


def size_of(sizes: Mapping[int, int], worker: int) -> int:
    """The samples of ``worker`` by ``sizes``; a worker that is not in there gets the lower median of the others.

    So an elastic job keeps the batch per worker of its start until a policy that resizes has split it again.
    """
    return sizes[worker] if worker in sizes else median_low(sizes.values())
