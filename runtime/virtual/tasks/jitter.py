"""Jitter of computing times: a seeded stream of factors for each worker, drawn a few or many at a time."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

BLOCK = 1024
"""Factors drawn at a time where all are needed."""
FEW = 64
"""Factors drawn at a time where they are asked for one by one: most of a thousand workers may need no more.

A multiple of the number that a processor computes at once, so that no factor depends on how many are drawn with it.
"""


def run_factor(seed: int, sigma: float) -> float:
    """A run's own factor, by its seed: LogNormal(-sigma^2/2, sigma), the same for all strategies."""
    return Jitter(seed, -1, sigma, 0.0).factor()


class Jitter:
    """Factors LogNormal(-sigma^2/2, sigma) with mean one; their logarithms are AR(1) with coefficient ``rho``.

    The k-th factor of a worker depends on the seed, the worker and k alone, so a strategy that lets a worker compute
    more often does not change the factors of the others. ``of``: the name of the stream.
    """

    def __init__(self, seed: int, worker: int, sigma: float, rho: float, of: str = "jitter") -> None:
        key = hashlib.sha256(f"{seed}/{of}/{worker}".encode()).digest()
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(key, "little"))))
        self.sigma, self.rho = sigma, rho
        self._level: float | None = None
        self._few: list[float] = []
        self._next = 0

    def factor(self) -> float:
        """The next factor of a worker."""
        if not self.sigma:
            return 1.0
        if self._next == len(self._few):
            self._few, self._next = self.block(FEW).tolist(), 0
        self._next += 1
        return self._few[self._next - 1]

    def block(self, count: int = BLOCK) -> NDArray[np.float64]:
        """The next ``count`` factors, float64 [count]; not to be mixed with :meth:`factor`."""
        levels, level = self._inputs(count)
        if self.rho:
            found = [level := self.rho * level + value for value in levels.tolist()]
            levels, self._level = np.array(found), level
        factors: NDArray[np.float64] = np.exp(self.sigma * levels - self.sigma**2 / 2)
        return factors

    def _inputs(self, count: int) -> tuple[NDArray[np.float64], float]:
        """Return the innovation of the next levels, and the level before; the first is of the stationary law."""
        draws = self._generator.standard_normal(count)
        if not self.rho:
            return draws, 0.0
        inputs: NDArray[np.float64] = draws * (1 - self.rho**2) ** 0.5
        if self._level is None:
            inputs[0] = draws[0]
        return inputs, self._level or 0.0
