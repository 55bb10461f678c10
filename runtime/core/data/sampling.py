"""From ranges of the data service to sample indices (shuffles are computed, not stored)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runtime.core.data.permutation import permute
from runtime.core.data.shards import Cut, Range


def sample_epochs(ranges: Sequence[Range]) -> NDArray[np.int64]:
    """Epochs of the samples of :func:`sample_indices`, int64 [samples]."""
    return np.repeat([work.epoch for work in ranges], [work.samples for work in ranges]).astype(np.int64)


def sample_indices(ranges: Sequence[Range], cut: Cut, seed: int) -> NDArray[np.int64]:
    """Dataset indices of the samples in their order of use, int64 [samples]."""
    parts = []
    for work in ranges:
        positions = np.arange(work.start, work.stop, dtype=np.int64)
        inside = permute(positions, cut.length(work.shard), (seed, work.epoch, work.shard))
        parts.append(cut.offset(work.shard) + inside)
    return np.concatenate(parts)
