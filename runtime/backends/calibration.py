"""Training samples on which statistics of batch normalisation are measured, whatever the framework."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHOICE_SEED = 0
"""The same in every run, whatever its seed."""


def calibration_samples(available: int, wanted: int) -> NDArray[np.int64]:
    """Indices of ``wanted`` of the ``available``: not the first nor every n-th, as files may be sorted by class."""
    return np.random.default_rng(CHOICE_SEED).choice(available, min(wanted, available), replace=False)


def whole_batches(chosen: NDArray[np.int64], batch_samples: int) -> list[NDArray[np.int64]]:
    """In batches of one size, so that each may count once; what is left over is not used."""
    size = min(batch_samples, len(chosen))
    return [chosen[start : start + size] for start in range(0, len(chosen) - size + 1, size)]
