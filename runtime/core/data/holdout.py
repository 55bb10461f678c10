"""Samples of the training data that are held out by seed, and never trained on (pure)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from runtime.core.data.permutation import permute

HELD_OUT = 0x686F6C64
"""Key that makes this draw independent of other uses of the seed."""


class Holdout:
    """``count`` of ``total`` samples; the others are renumbered, 0 to total - count - 1, in their old order.

    ``indices`` are the held-out ones, sorted, int64 [count]. Memory is used for these only.
    """

    def __init__(self, total: int, count: int, seed: int) -> None:
        self.indices: NDArray[np.int64] = np.sort(permute(np.arange(count), total, (seed, HELD_OUT)))
        self._kept_before = self.indices - np.arange(count)

    def kept(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Dataset indices of samples, numbered without the held-out ones."""
        return numbers + np.searchsorted(self._kept_before, numbers, side="right")
