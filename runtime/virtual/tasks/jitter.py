"""Jitter of computing times: a seeded stream of factors for each worker, drawn in blocks."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

BLOCK = 1024


class Jitter:
    """Factors LogNormal(-sigma^2/2, sigma) with mean one; their logarithms are AR(1) with coefficient ``rho``.

    The k-th factor of a worker depends on the seed, the worker and k alone, so a strategy that lets a worker compute
    more often does not change the factors of the others.
    """

    def __init__(self, seed: int, worker: int, sigma: float, rho: float) -> None:
        key = hashlib.sha256(f"{seed}/jitter/{worker}".encode()).digest()
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(key, "little"))))
        self.sigma, self.rho = sigma, rho
        self._level: float | None = None
        self._block: list[float] = []
        self._next = 0

    def factor(self) -> float:
        """The next factor of a worker."""
        if not self.sigma:
            return 1.0
        if self._next == len(self._block):
            self._block, self._next = self.block().tolist(), 0
        self._next += 1
        return self._block[self._next - 1]

    def block(self, count: int = BLOCK) -> NDArray[np.float64]:
        """The next ``count`` factors, float64 [count]; not to be mixed with :meth:`factor`."""
        levels = self._generator.standard_normal(count)
        if self.rho:
            levels = self._correlated(levels)
        factors: NDArray[np.float64] = np.exp(self.sigma * levels - self.sigma**2 / 2)
        return factors

    def _correlated(self, draws: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.signal import lfilter

        innovation = (1 - self.rho**2) ** 0.5
        inputs = draws * innovation
        if self._level is None:  # the first level is drawn from the stationary distribution
            inputs[0] = draws[0]
            levels, _ = lfilter([1.0], [1.0, -self.rho], inputs, zi=[0.0])
        else:
            levels, _ = lfilter([1.0], [1.0, -self.rho], inputs, zi=[self.rho * self._level])
        self._level = float(levels[-1])
        correlated: NDArray[np.float64] = levels
        return correlated
