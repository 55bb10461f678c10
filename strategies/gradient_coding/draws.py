"""The strategy's own random generator, seeded by a setting, so that a replay builds the same code."""

from __future__ import annotations

import numpy as np


def draws(code_seed: int, attempt: int) -> np.random.Generator:
    """The generator of the ``attempt``-th code that a job builds."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((code_seed, attempt))))
