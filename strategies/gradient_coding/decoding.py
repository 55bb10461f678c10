"""From the rows that arrived to the weights that give the full gradient, in float64; shapes and checks of all files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from reading.ranges import check_whole

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
"""A support (m, k): whether worker i holds part j."""
Indices = NDArray[np.intp]
"""Straggler sets (sets, size): the dead workers of each, ascending."""
Group = tuple[int, ...]
"""Worker ids in ascending order."""


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


RESIDUAL = 1e-6
"""Largest |a B - 1| of weights that count as decoded."""
DEPENDENT = 1e-10
"""Singular values below this share of the largest (1 for an orthonormal basis) are rounding."""


class Decoded(NamedTuple):
    """``weights`` a, one per worker and zero for those that did not arrive; ``residual`` = max |a B - 1|."""

    weights: Floats
    residual: float

    @property
    def ok(self) -> bool:
        """Whether the weights give the full gradient."""
        return self.residual <= RESIDUAL


@final
@dataclass(frozen=True, eq=False)
class Code:
    """A coding matrix B (m x k) and its decoder.

    Plain sums (all weights 1, exact in any precision) are preferred: of the first of ``groups`` that is complete, then
    of one worker per distinct row where the distinct rows add up to 1 (naive, fractional repetition). Otherwise the
    weights are the shortest a with a B = 1 that is zero at the missing workers.
    """

    matrix: Floats
    groups: tuple[Group, ...] = ()

    @property
    def num_workers(self) -> int:
        return len(self.matrix)

    def decode(self, arrived: Collection[int]) -> Decoded:
        """Weights for the workers that ``arrived``, in any order.

        Raises:
            ValueError: the code has no such worker.
        """
        here = set(arrived)
        if unknown := sorted(here - set(range(self.num_workers))):
            raise ValueError(f"worker {unknown[0]}: the code has workers 0 to {self.num_workers - 1}")
        missing = [worker for worker in range(self.num_workers) if worker not in here]
        weights = self.weights(np.array([missing], dtype=np.intp))[0]
        return Decoded(weights, float(np.abs(weights @ self.matrix - 1).max()))

    def weights(self, dead: Indices) -> Floats:
        """Weights (sets, m) without each of the ``dead`` sets (sets, size); invalid where a set cannot be decoded."""
        weights = np.zeros((len(dead), self.num_workers))
        alive = np.ones(weights.shape, dtype=np.bool_)
        np.put_along_axis(alive, dead, False, axis=1)
        found: Mask = np.zeros(len(dead), dtype=np.bool_)
        if self._kinds:
            firsts = [np.array(kind)[alive[:, kind].argmax(axis=1)] for kind in self._kinds]
            plain = np.zeros(weights.shape)
            np.put_along_axis(plain, np.column_stack(firsts), 1.0, axis=1)
            found = np.asarray(~(plain.astype(np.bool_) & ~alive).any(axis=1))
            weights[found] = plain[found]
        for group in reversed(self.groups):
            complete = alive[:, group].all(axis=1)
            weights[complete] = np.isin(np.arange(self.num_workers), group)
            found |= complete
        if not found.all():  # their decomposition is most of the work for many workers
            weights[~found] = self._shortest_without(dead[~found])
        return weights

    def _shortest_without(self, dead: Indices) -> Floats:
        """All solutions of a B = 1 are ``shortest + y @ free.T``: y with the smallest norm that is zero at the dead.

        The system solved has the size of the redundancy instead of the cluster's.
        """
        shortest, free = self._solutions
        weights = np.tile(shortest, (len(dead), 1))
        if dead.shape[1] and free.shape[1]:
            left, values, right = np.linalg.svd(free[dead], full_matrices=False)
            inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > DEPENDENT)
            y = np.einsum("nrd,nr->nd", right, inverse * np.einsum("nir,ni->nr", left, shortest[dead]))
            weights -= y @ free.T
        np.put_along_axis(weights, dead, 0.0, axis=1)
        return weights

    @cached_property
    def _solutions(self) -> tuple[Floats, Floats]:
        """The shortest a (m,) with a B = 1, and an orthonormal basis (m, m - rank) of vectors to add."""
        m, k = self.matrix.shape
        if k > m:  # the square factor has the same left side, and is a fraction of the work
            across, triangle = np.linalg.qr(self.matrix.T)
            left, values, inner = np.linalg.svd(triangle.T)
            ones = inner @ across.sum(axis=0)
        else:
            left, values, right = np.linalg.svd(self.matrix)
            ones = right.sum(axis=1)
        rank = int((values > DEPENDENT * values[0]).sum())
        shortest = left[:, :rank] @ (ones[:rank] / values[:rank])
        return shortest, left[:, rank:]

    @cached_property
    def _kinds(self) -> list[list[int]]:
        """Workers grouped by equal rows if the distinct rows add up to exactly 1, otherwise nothing."""
        kinds: dict[bytes, list[int]] = {}
        for worker, row in enumerate(self.matrix):
            if row.any():
                kinds.setdefault(row.tobytes(), []).append(worker)
        firsts = [kind[0] for kind in kinds.values()]
        return list(kinds.values()) if (self.matrix[firsts].sum(axis=0) == 1).all() else []
