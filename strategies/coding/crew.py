"""A code and the workers whose rows it has: built for who is there, with fewer stragglers tolerated where need be."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

import numpy as np

from strategies.coding.draws import draws
from strategies.coding.partitions import default_parts
from strategies.coding.schemes import ONE_PART_EACH, build
from strategies.coding.stragglers import Rated
from strategies.protocol import Part
from strategies.weights import split_evenly


@final
@dataclass(frozen=True)
class Recipe:
    """What a code is built by; see :func:`strategies.coding.build`."""

    scheme: str
    s: int
    k: int | None
    draws: int
    max_amplification: float
    prune: str
    code_seed: int
    at_most_parts: int | None = None

    def rated(self, throughputs: Sequence[float], s: int, attempt: int = 0) -> Rated:
        """The code for as many workers; raises ``ValueError`` as ``build`` does."""
        return _built(self, tuple(throughputs), s, attempt)


@lru_cache(maxsize=64)
def _built(recipe: Recipe, throughputs: tuple[float, ...], s: int, attempt: int) -> Rated:
    """Kept, since a job that starts has built its first code when it was checked."""
    k = None
    if recipe.scheme not in ONE_PART_EACH:
        k = min(recipe.k or default_parts(throughputs, s), recipe.at_most_parts or sys.maxsize)
    return build(
        recipe.scheme,
        throughputs,
        s,
        draws(recipe.code_seed, attempt),
        k=k,
        draws=recipe.draws,
        max_amplification=recipe.max_amplification,
        prune=recipe.prune,
    )


@final
class Crew:
    """``workers`` have rows, and ``s`` of them may be missing; ``idle`` are too slow to have been given any part."""

    def __init__(self, workers: Sequence[int], rated: Rated, s: int, throughputs: Sequence[float]) -> None:
        self.rated, self.code, self.s = rated, rated.code, s
        self.place = {worker: row for row, worker in enumerate(workers) if self.code.matrix[row].any()}
        self.workers = tuple(self.place)
        self.idle = set(workers) - set(self.workers)
        self.throughputs = tuple(throughputs[row] for row in self.place.values())

    @classmethod
    def of(cls, recipe: Recipe, throughputs: dict[int, float], attempt: int) -> Crew:
        """For these workers, with the largest s of at most the recipe's that can be had; the last resort is none."""
        workers = sorted(throughputs)
        speeds = [throughputs[worker] for worker in workers]
        for s in range(min(recipe.s, len(workers) - 1), 0, -1):
            try:
                return cls(workers, recipe.rated(speeds, s, attempt), s, speeds)
            except ValueError:  # s + 1 does not divide their number, or it would amplify too much
                continue
        return cls(workers, build("naive", speeds, 0, draws(recipe.code_seed, attempt)), 0, speeds)

    @property
    def num_parts(self) -> int:
        """K."""
        return int(self.code.matrix.shape[1])

    @cached_property
    def rows(self) -> dict[int, tuple[Part, ...]]:
        """The parts of every worker."""
        found = {worker: self.code.matrix[place] for worker, place in self.place.items()}
        return {
            worker: tuple(Part(int(index), float(row[index])) for index in np.flatnonzero(row))
            for worker, row in found.items()
        }

    def assigned(self, round_samples: int) -> dict[int, int]:
        """Samples of every worker's parts in a round of so many."""
        sizes = split_evenly(round_samples, self.num_parts)
        return {worker: sum(sizes[part.index] for part in row) for worker, row in self.rows.items()}

    def enough(self, arrived: Collection[int]) -> bool:
        """Whether these workers are all but s, or a whole group: no other set is worth a try."""
        rows = {self.place[worker] for worker in arrived}
        return len(rows) >= len(self.workers) - self.s or any(rows.issuperset(group) for group in self.code.groups)

    def weights(self, arrived: Collection[int]) -> tuple[dict[int, float], float]:
        """What every row that arrived counts in the full gradient, and the residual of that."""
        decoded = self.code.decode([self.place[worker] for worker in arrived])
        return {worker: float(decoded.weights[self.place[worker]]) for worker in sorted(arrived)}, decoded.residual
