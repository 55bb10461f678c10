"""Floats of 16 bits on their way (``topology.transfer_bits=16``): the upper half of a float32, known as bfloat16.

Rounded to nearest, ties to even, as everybody's bfloat16. It has the range of float32 and 8 bits of precision, so a
number changes by 1 part in 256 at most (usually far less), and nothing overflows that is not near the end of the range.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from runtime import native
from runtime.core.vectors import BLOCK_FLOATS, FloatVector, aligned_vector

Bfloat16Vector = NDArray[np.uint16]
"""Numbers of 16 bits, as integers."""
_MAGNITUDE, _INFINITY, _QUIET = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint16(0x40)
_compiled = native.native(native.BFLOAT16)


def bfloat16_vector(num_floats: int) -> Bfloat16Vector:
    """As :func:`runtime.core.vectors.aligned_vector`, of half the size."""
    return aligned_vector((num_floats + 1) // 2).view(np.uint16)[:num_floats]


def encode(floats: FloatVector, bfloat16: Bfloat16Vector) -> None:
    """Write ``floats`` to ``bfloat16`` of the same length, rounded; NaN stays NaN."""
    if _compiled is not None:
        _compiled.encode(floats, bfloat16)
        return
    for lo in range(0, len(floats), BLOCK_FLOATS):
        bits = floats[lo : lo + BLOCK_FLOATS].view(np.uint32)
        rounded = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
        none = (bits & _MAGNITUDE) > _INFINITY
        rounded[none] = bits[none]
        half = (rounded >> np.uint32(16)).astype(np.uint16)
        half[none] |= _QUIET
        bfloat16[lo : lo + BLOCK_FLOATS] = half


def decode(bfloat16: Bfloat16Vector, floats: FloatVector) -> None:
    """Write ``bfloat16`` to ``floats`` of the same length, exactly."""
    if _compiled is not None:
        _compiled.decode(bfloat16, floats)
        return
    np.left_shift(bfloat16, np.uint32(16), out=floats.view(np.uint32), dtype=np.uint32)
