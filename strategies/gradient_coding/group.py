"""A code and the workers whose rows it has: built for the current workers, with a smaller s where none else exists."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from math import inf
from typing import NamedTuple, final

import numpy as np

from strategies.gradient_coding.decoding import RESIDUAL, Mask
from strategies.gradient_coding.draws import draws
from strategies.gradient_coding.partitions import PARTS_PER_WORKER, counts_by_time, default_parts
from strategies.gradient_coding.schemes import ONE_PART_EACH, Rated, build
from strategies.gradient_coding.speeds import Pace
from strategies.protocol import Part, split_evenly


@final
@dataclass(frozen=True)
class Recipe:
    """Settings from which a code is built; see :func:`strategies.gradient_coding.build`."""

    scheme: str
    s: int
    k: int | None
    draws: int
    max_amplification: float
    prune: str
    code_seed: int
    at_most_parts: int = field(default=sys.maxsize, compare=False)

    def rate(self, throughputs: Sequence[float], s: int, attempt: int = 0) -> Rated:
        """The code for workers of these throughputs; raises ``ValueError`` as ``build`` does."""
        k = None
        if self.scheme not in ONE_PART_EACH:
            k = min(self.k or default_parts(throughputs, s), self.at_most_parts)
        return _build_cached(self, tuple(throughputs), s, k, attempt, None)

    def rate_held(self, held: Sequence[int], s: int, attempt: int = 0) -> Rated:
        """The code for workers that hold ``held[i]`` parts each, ``k (s + 1)`` in all."""
        return _build_cached(self, (1.0,) * len(held), s, sum(held) // (s + 1), attempt, tuple(held))

    def shares(self, paces: Sequence[Pace], s: int, round_samples: int) -> list[tuple[int, float]]:
        """Parts of each worker and their samples, so that the last worker finishes as early as possible."""
        k = min(self.k or PARTS_PER_WORKER * len(paces), self.at_most_parts)
        part = round_samples / k

        def seconds(pace: Pace, parts: int) -> float:
            return pace.seconds(parts * part)

        held = counts_by_time([partial(seconds, pace) for pace in paces], k, s)
        return [(own, own * part) for own in held]


@lru_cache(maxsize=64)
def _build_cached(
    recipe: Recipe, throughputs: tuple[float, ...], s: int, k: int | None, attempt: int, held: tuple[int, ...] | None
) -> Rated:
    """Cached, because the check before the job has already built the first code."""
    return build(
        recipe.scheme,
        throughputs,
        s,
        draws(recipe.code_seed, attempt),
        k=k,
        draws=recipe.draws,
        max_amplification=recipe.max_amplification,
        prune=recipe.prune,
        held=held,
    )


class Decoding(NamedTuple):
    """The weight of every row that arrived, and the residual of the decoded gradient."""

    weights: dict[int, float]
    residual: float


@final
class CodedGroup:
    """``workers`` have rows, of which ``s`` may be missing; ``idle`` workers are too slow to have any part."""

    def __init__(self, workers: Sequence[int], rated: Rated, s: int, max_amplification: float) -> None:
        self.rated, self.code, self.s, self.max_amplification = rated, rated.code, s, max_amplification
        self.place = {worker: row for row, worker in enumerate(workers) if self.code.matrix[row].any()}
        self.workers = tuple(self.place)
        self.idle = set(workers) - set(self.workers)

    @classmethod
    def of(cls, recipe: Recipe, throughputs: Mapping[int, float], attempt: int) -> CodedGroup:
        """A code for these workers, with the largest feasible s up to the recipe's; s = 0 as the last resort."""
        workers = sorted(throughputs)
        speeds = [throughputs[worker] for worker in workers]
        for s in range(min(recipe.s, len(workers) - 1), 0, -1):
            for own in (speeds, [1.0] * len(speeds)):  # equal shares before a smaller s
                try:
                    return cls(workers, recipe.rate(own, s, attempt), s, recipe.max_amplification)
                except ValueError:  # s + 1 does not divide their number, or it would amplify too much
                    continue
        return cls(workers, build("naive", speeds, 0, draws(recipe.code_seed, attempt)), 0, recipe.max_amplification)

    @classmethod
    def with_shares(cls, recipe: Recipe, held: Mapping[int, int], s: int, attempt: int) -> CodedGroup:
        """A code for workers that hold so many parts; raises ``ValueError`` where it amplifies too much."""
        workers = sorted(held)
        rated = recipe.rate_held([held[worker] for worker in workers], s, attempt)
        return cls(workers, rated, s, recipe.max_amplification)

    @property
    def num_parts(self) -> int:
        """The number k of parts of a round."""
        return int(self.code.matrix.shape[1])

    @cached_property
    def rows(self) -> dict[int, tuple[Part, ...]]:
        """The row of every worker: indices and coefficients of its parts."""
        found = {worker: self.code.matrix[place] for worker, place in self.place.items()}
        return {
            worker: tuple(Part(int(index), float(row[index])) for index in np.flatnonzero(row))
            for worker, row in found.items()
        }

    def samples_by_worker(self, round_samples: int) -> dict[int, int]:
        """Samples of every worker's parts in a round of ``round_samples``."""
        sizes = split_evenly(round_samples, self.num_parts)
        return {worker: sum(sizes[part.index] for part in row) for worker, row in self.rows.items()}

    def decode(self, arrived: Collection[int], *, eager: bool) -> Decoding | None:
        """The decoding of these workers' rows, or None where they are not enough.

        All but s workers, or a complete group, are enough; ``eager`` tries any set that covers every part.
        """
        most = len(arrived) >= len(self.workers) - self.s
        if not (most or eager or self.code.groups):
            return None
        rows = sorted([self.place[worker] for worker in arrived])
        whole = any(map(set(rows).issuperset, self.code.groups))
        if not (most or whole or (eager and self._support[rows].any(axis=0).all())):
            return None
        decoded = self.code.decode(rows)
        amplified = (np.abs(decoded.weights) @ np.abs(self.code.matrix)).max()
        if decoded.residual > RESIDUAL or not (most or amplified <= self.max_amplification):
            return None
        return Decoding(
            {worker: float(decoded.weights[self.place[worker]]) for worker in sorted(arrived)}, decoded.residual
        )

    def round_s(self, times_s: Mapping[int, float], *, eager: bool) -> float:
        """Seconds until a round is decodable in which workers deliver at these times."""
        here: list[int] = []
        for worker in sorted(times_s, key=lambda worker: (times_s[worker], worker)):
            here.append(worker)
            if self.decode(here, eager=eager) is not None:
                return times_s[worker]
        return inf

    @cached_property
    def _support(self) -> Mask:
        return np.asarray(self.code.matrix != 0)
