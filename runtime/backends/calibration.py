"""The training samples on which batch-normalisation statistics are measured, for every framework."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHOICE_SEED = 0
"""Fixed, so that runs with any seed have the same samples."""


def calibration_samples(available: int, wanted: int) -> NDArray[np.int64]:
    """``wanted`` random indices below ``available``: not the first nor every n-th, as files may be sorted by class."""
    return np.random.default_rng(CHOICE_SEED).choice(available, min(wanted, available), replace=False)


def whole_batches(chosen: NDArray[np.int64], batch_samples: int) -> list[NDArray[np.int64]]:
    """Batches of equal size, so that each may have the same weight; the remainder is not used."""
    size = min(batch_samples, len(chosen))
    return [chosen[start : start + size] for start in range(0, len(chosen) - size + 1, size)]
