"""Random streams of the patterns."""

from __future__ import annotations

import hashlib
import math

import numpy as np


def stream(seed: int, pattern: str, target: str) -> np.random.Generator:
    """The generator of one target in one pattern.

    Keyed by all three, so that another worker more does not shift the draws of the others, and never shared: one stream
    for all workers would let all of them straggle at the same moments.
    """
    # hashed first, as SeedSequence pads short keys with zeros and so takes some different ones for the same
    key = hashlib.sha256(f"{seed}/{pattern}/{target}".encode()).digest()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(key, "little"))))


def exponential(draws: np.random.Generator) -> float:
    """One exponential draw of mean 1, from one uniform draw: numpy may change how it samples other distributions."""
    return -math.log1p(-draws.random())
