"""What all files of the package share: the shapes, the chance that is passed in, and the refusals."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from strategies.checks import check_whole

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
"""Of a support, (m, k): does worker i hold part j?"""
Indices = NDArray[np.intp]
"""Of straggler sets, (sets, size): the dead workers of each, ascending."""
Group = tuple[int, ...]
"""Workers, ascending."""


class Chance(Protocol):
    """What is used here of a ``numpy.random.Generator``."""

    def random(self, size: tuple[int, int]) -> NDArray[Any]:
        """Uniform on [0, 1)."""
        ...

    def standard_normal(self, size: tuple[int, int]) -> NDArray[Any]:
        """Normal with mean 0 and variance 1."""
        ...


def check_tolerance(s: int, m: int) -> None:
    """Raise ``ValueError`` unless ``m`` workers can do without ``s`` of them."""
    check_whole("s", s)
    if s >= m:
        raise ValueError(f"s={s}: must be below the number of workers, {m}; somebody has to be left")


def check_throughputs(throughputs: Sequence[float]) -> None:
    """Raise ``ValueError`` unless all are positive and finite."""
    for worker, throughput in enumerate(throughputs):
        if not (isfinite(throughput) and throughput > 0):
            raise ValueError(
                f"throughput {throughput} of worker {worker}: must be positive and finite; measure it first, or leave "
                "the worker out"
            )
