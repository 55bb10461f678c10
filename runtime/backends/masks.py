"""Dropout masks depend on the job's seed and the micro-batch and on nothing else, in every framework.

So a gradient remains a function of parameters and samples: the same in every process and runtime, whether computed for
the first time or repeated. Different frameworks draw different masks from the same key.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def mask_key(seed: int, inputs: NDArray[Any]) -> int:
    """A 32-bit key of the job's seed and the inputs of a micro-batch."""
    return zlib.crc32(np.ascontiguousarray(inputs).data, zlib.crc32(seed.to_bytes(8, "little")))
