"""The strategy's own random generator, seeded by a setting, so that a replay builds the same code."""

from __future__ import annotations

import numpy as np

Chance = np.random.Generator


def draws(code_seed: int, attempt: int) -> Chance:
    """The generator of the ``attempt``-th code that a job builds."""
    return Chance(np.random.PCG64(np.random.SeedSequence((code_seed, attempt))))
