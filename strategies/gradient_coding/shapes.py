"""What all files of the package share: shapes, the interface of a random generator, and checks."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from strategies.parts.checks import check_whole

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
"""A support (m, k): whether worker i holds part j."""
Indices = NDArray[np.intp]
"""Straggler sets (sets, size): the dead workers of each, ascending."""
Group = tuple[int, ...]
"""Worker ids in ascending order."""


class Chance(Protocol):
    """The methods of ``numpy.random.Generator`` that are used here."""

    def random(self, size: tuple[int, int]) -> NDArray[Any]:
        """Values uniform on [0, 1), of this shape."""
        ...

    def standard_normal(self, size: tuple[int, int]) -> NDArray[Any]:
        """Normal values of mean 0 and variance 1, of this shape."""
        ...


def check_tolerance(s: int, m: int) -> None:
    """Raise ``ValueError`` unless ``s`` is at least 0 and below ``m``, the number of workers."""
    check_whole("s", s)
    if s >= m:
        raise ValueError(f"s={s}: must be below the number of workers, {m}; at least one must be left")


def check_throughputs(throughputs: Sequence[float]) -> None:
    """Raise ``ValueError`` unless all are positive and finite."""
    for worker, throughput in enumerate(throughputs):
        if not (isfinite(throughput) and throughput > 0):
            raise ValueError(
                f"throughput {throughput} of worker {worker}: must be positive and finite; measure it first, or leave "
                "the worker out"
            )
