"""Masks of dropout depend on the job's seed and the micro-batch, on nothing else, in every framework.

So a gradient stays a function of parameters and samples: the same in every process and runtime, computed for the first
time or again. The frameworks make other masks of the same key.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def mask_key(seed: int, inputs: NDArray[Any]) -> int:
    """Of 32 bits."""
    return zlib.crc32(np.ascontiguousarray(inputs).data, zlib.crc32(seed.to_bytes(8, "little")))
