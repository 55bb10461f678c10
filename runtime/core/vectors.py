"""Flat float32 vectors: their memory, and how servers divide one among them."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import floor

import numpy as np
from numpy.typing import NDArray

FloatVector = NDArray[np.float32]

PARAMETER_BYTES = 4
"""Size of one float32."""
BLOCK_FLOATS = 1 << 15
"""Elements converted to double precision at once, so that they stay in the cache."""
CUT_FLOATS = 16
"""Vectors are split at multiples of this number of elements (64 bytes), so that all parts are aligned."""


def aligned_vector(num_floats: int) -> FloatVector:
    """A zeroed, page-aligned float32 vector that is its own anonymous mapping.

    It is private: pages of memory that could be shared take half as long again at their first touch.
    """
    size = max(num_floats * PARAMETER_BYTES, mmap.PAGESIZE)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, dtype=np.float32)[:num_floats]


def inner_products(one: FloatVector, other: FloatVector) -> tuple[float, float, float]:
    """``one`` with ``other``, ``one`` with itself and ``other`` with itself, in double precision.

    The vectors are converted once, in blocks that stay in the cache.
    """
    size = min(BLOCK_FLOATS, len(one))
    double_one, double_other = np.empty(size), np.empty(size)
    both = sqr_one = sqr_other = 0.0
    for lo in range(0, len(one), BLOCK_FLOATS):
        left, right = (double[: len(one) - lo] for double in (double_one, double_other))
        np.copyto(left, one[lo : lo + BLOCK_FLOATS])
        np.copyto(right, other[lo : lo + BLOCK_FLOATS])
        both += float(np.dot(left, right))
        sqr_one += float(np.dot(left, left))
        sqr_other += float(np.dot(right, right))
    return both, sqr_one, sqr_other


def server_range(num_floats: int, num_servers: int, server: int) -> tuple[int, int]:
    """The contiguous part [lo, hi) of the flat vector that a server holds."""
    blocks = -(-num_floats // CUT_FLOATS)
    lo, hi = (min(num_floats, blocks * part // num_servers * CUT_FLOATS) for part in (server, server + 1))
    return lo, hi


def cut_by_shares(num_floats: int, shares: Sequence[float]) -> list[tuple[int, int]]:
    """[lo, hi) of every part of the flat vector, in proportion to ``shares``, which are positive.

    Computed exactly: equal shares of any size give :func:`server_range`.
    """
    blocks = -(-num_floats // CUT_FLOATS)
    ends = [Fraction(0), *accumulate(Fraction(share) for share in shares)]
    cuts = [min(num_floats, floor(blocks * end / ends[-1]) * CUT_FLOATS) for end in ends] if shares else [0]
    return list(pairwise(cuts))
