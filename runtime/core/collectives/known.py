"""The schedules that ``topology.collective`` names, and who can be in them (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain

import msgspec

from runtime.core.collectives.schedule import Schedule, Transfer, pipelined
from runtime.core.collectives.stragglar import stragglar


def ring(size: int) -> Schedule:
    """Reduce-scatter around a ring, then all-gather: 2 (n - 1) rounds of an nth (Patarasuk and Yuan, JPDC 2009)."""
    rounds = []
    for number in range(2 * (size - 1)):
        parts = [(rank - number) % size for rank in range(size)]
        adds = number < size - 1
        rounds.append(tuple(Transfer(rank, (rank + 1) % size, part, part + 1, adds) for rank, part in enumerate(parts)))
    return Schedule(size, 1, size, tuple(rounds), buffered=True)


def tree(size: int) -> Schedule:
    """Sum the whole vector up a binomial tree to rank 0, and distribute it back down: 2 ceil(log2 n) rounds."""
    up = []
    gap = 1
    while gap < size:
        up.append(tuple(Transfer(rank + gap, rank, 0, 1, adds=True) for rank in range(0, size - gap, 2 * gap)))
        gap *= 2
    down = [
        tuple(Transfer(one.target, one.source, 0, 1, adds=False) for one in transfers) for transfers in reversed(up)
    ]
    return Schedule(size, 1, 1, (*up, *down))


def halving_doubling(size: int) -> Schedule:
    """Exchange halves, quarters ... of the vector with ever nearer ranks, then back (Thakur et al., IJHPCA 2005).

    2 log2 n rounds, in which a rank sends 2 (n - 1) / n of the vector. ``size`` is a power of two.
    """
    held = [(0, size)] * size
    scatter, gather = [], []
    gap = size // 2
    while gap:
        exchanged, kept = [], []
        for rank, (lo, hi) in enumerate(held):
            middle, low = (lo + hi) // 2, not rank & gap
            gives, keeps = ((middle, hi), (lo, middle)) if low else ((lo, middle), (middle, hi))
            exchanged.append(Transfer(rank, rank ^ gap, *gives, adds=True))
            kept.append(keeps)
        held = kept
        scatter.append(tuple(exchanged))
        gather.append(tuple(Transfer(rank, rank ^ gap, *own, adds=False) for rank, own in enumerate(held)))
        gap //= 2
    return Schedule(size, 1, size, tuple(chain(scatter, reversed(gather))))


def transpose(size: int) -> Schedule:
    """Send every rank its part of the vector, then the sum of one's own part to all: 2 (n - 1) rounds of an nth.

    OptiReduce's Transpose AllReduce (Warraich et al., NSDI 2025): no message has what came in another one.
    """
    scatter, gather = [], []
    for gap in range(1, size):
        pairs = [(rank, (rank + gap) % size) for rank in range(size)]
        scatter.append(tuple(Transfer(rank, other, other, other + 1, adds=True) for rank, other in pairs))
        gather.append(tuple(Transfer(rank, other, rank, rank + 1, adds=False) for rank, other in pairs))
    return Schedule(size, 1, size, (*scatter, *gather), buffered=True)


def of_any(size: int) -> bool:
    """As many ranks as there are."""
    return size > 0


def of_powers(size: int) -> bool:
    """A power of two."""
    return size > 0 and not size & (size - 1)


class Known(msgspec.Struct, frozen=True):
    """A collective that this project has a schedule for."""

    make: Callable[[int], Schedule]
    fits: Callable[[int], bool] = of_any
    """Whether there is a schedule for so many ranks."""


SCHEDULES: dict[str, Known] = {
    "ring": Known(ring),
    "tree": Known(tree),
    "halving_doubling": Known(halving_doubling, of_powers),
    "transpose": Known(transpose),
    "stragglar": Known(stragglar, lambda size: size > 1 and of_powers(size)),
}
"""Schedules by the name that ``topology.collective`` has."""
TRACE = "trace"
"""The schedule that execution traces have."""
MODELLED = frozenset({"stragglar", TRACE})
"""Collectives that only the virtual clock has."""
NO_RINGS = frozenset({*SCHEDULES, TRACE}) - {"ring"}
"""Collectives that sum by another schedule."""


class Summing(msgspec.Struct, frozen=True):
    """How the replicas of a job sum an update (``topology.collective``, ``blocks``, ``late_worker``, ``bound_s``)."""

    collective: str = "ring"
    blocks: int = 1
    """Blocks of the vector that follow each other."""
    late_worker: int | None = None
    """The worker that the others do not wait for; None: there is none."""
    traced: Schedule | None = None
    """The schedule of a trace."""
    bound_s: float | None = None
    """Seconds that a replica gives a sum (``transpose``), each round its part: messages that are late are lost."""

    @property
    def is_ring(self) -> bool:
        """Whether it is a ring of the whole vector, whose times have a closed form."""
        return self.blocks == 1 and self.collective not in NO_RINGS

    def ranked(self, workers: Sequence[int]) -> list[int]:
        """The workers in the order of their ranks: one that may be late is the last."""
        return sorted(workers, key=lambda worker: worker == self.late_worker)

    def schedule(self, size: int) -> Schedule:
        """The schedule among so many workers."""
        if self.traced is not None and self.traced.ranks == size:
            return pipelined(self.traced, self.blocks)
        return schedule_of(self.collective, size, self.blocks)


@lru_cache(maxsize=16)
def schedule_of(collective: str, size: int, blocks: int = 1) -> Schedule:
    """The schedule of a collective among so many ranks; a ring where it has none for so many, as after a loss.

    Sums of ``torch.distributed`` (``gloo``, ``nccl``, ``ddp``) are modelled as a ring.
    """
    known = SCHEDULES.get(collective, SCHEDULES["ring"])
    return pipelined(known.make(size) if known.fits(size) else ring(size), blocks)
