"""Random streams of the patterns."""

from __future__ import annotations

import hashlib
import math

import numpy as np


def stream(seed: int, pattern: str, target: str) -> np.random.Generator:
    """The generator of one target in one pattern.

    Keyed by all three, so that an additional worker does not change the draws of the others; never shared, since a
    common stream would make all workers straggle at the same times.
    """
    # hashed first: SeedSequence pads short keys with zeros, which would make some different keys equal
    key = hashlib.sha256(f"{seed}/{pattern}/{target}".encode()).digest()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(key, "little"))))


def exponential(draws: np.random.Generator) -> float:
    """One exponential draw of mean 1, by inversion of one uniform draw: numpy may change its other samplers."""
    return -math.log1p(-draws.random())
