"""Coded rounds: samples are split into parts, and counted once however many workers compute them (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from runtime.core.data.shards import Range, Shards, samples_of
from runtime.core.job import Piece
from strategies.protocol import Part, split_evenly

DRAWER = -1
"""The id under which rounds draw samples from the data service, like a worker's."""
UNEVEN = 1e-6
"""Largest difference between the weights of two parts in an update, against their mean."""


@dataclass
class Round:
    """``parts[j]`` are the ranges of part j; ``work_id`` identifies the round in the data service."""

    number: int
    samples: int
    parts: list[tuple[Range, ...]]

    @property
    def work_id(self) -> int:
        """The id in the data service, below all ids of gradients."""
        return -1 - self.number


class Parts:
    """The current round, and the parts in each of its gradients. Refusals are ``ValueError``."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self.now: Round | None = None
        self._opened = 0
        self._rows: dict[int, tuple[Part, ...]] = {}

    @property
    def used(self) -> bool:
        """Whether there was ever a round."""
        return self._opened > 0

    def open(self, num_samples: int, num_parts: int) -> Round:
        """Begin a round, with the samples of the last one as long as that has not been applied."""
        if num_samples < 1 or num_parts < 1:
            raise ValueError("a round needs at least one sample and one part")
        if self.now is not None:
            self.shards.returned(self.now.work_id, to_holder=True)
        number = self._opened
        ranges = self.shards.take(-1 - number, DRAWER, self.now.samples if self.now is not None else num_samples)
        if not ranges:
            raise ValueError("there is no data for a round; begin it when the last one has been applied")
        self._opened += 1
        self._rows = {}
        self.now = Round(number, sum(part.samples for part in ranges), cut_evenly(ranges, num_parts))
        return self.now

    def take(self, grad_id: int, parts: tuple[Part, ...]) -> tuple[tuple[Range, ...], tuple[Piece, ...]]:
        """The samples of some parts of the current round, with the coefficient of each; empty parts are omitted."""
        if self.now is None:
            raise ValueError("there is no round; begin one with a Partition")
        indices, known = [part.index for part in parts], self.now.parts
        if len(set(indices)) < len(indices) or min(indices) < 0 or max(indices) >= len(known):
            raise ValueError(f"the round has parts 0 to {len(known) - 1}, each at most once in a row")
        self._rows[grad_id] = parts
        held = [(ranges, part.coefficient) for part in parts if (ranges := known[part.index])]
        pieces = [Piece(samples_of(ranges), coefficient) for ranges, coefficient in held]
        return tuple([one for ranges, _ in held for one in ranges]), tuple(pieces)

    def applied(self, number: int, grads: Sequence[int], weights: Sequence[float]) -> int:
        """Book the round as applied. Returns the number of epochs that this completed."""
        if self.now is None or self.now.number != number:
            raise ValueError(f"round {number} is over; its remaining gradients can only be dropped")
        total = np.zeros(len(self.now.parts))
        for grad, weight in zip(grads, weights, strict=True):
            for part in self._rows[grad]:
                total[part.index] += weight * part.coefficient
        counted = total[[index for index, ranges in enumerate(self.now.parts) if ranges]]
        mean = float(counted.mean())
        if not mean > 0 or float(np.abs(counted / mean - 1).max()) > UNEVEN:
            raise ValueError(
                f"not every part of round {number} has the same weight: {counted.min():g} to {counted.max():g}"
            )
        work_id, self.now = self.now.work_id, None
        return self.shards.applied(work_id)

    def void(self) -> None:
        """Void the round: the data service has rolled back or is about to."""
        self.now = None
        self._rows = {}


def cut_evenly(ranges: Sequence[Range], num_parts: int) -> list[tuple[Range, ...]]:
    """Consecutive samples cut into parts whose sizes differ by at most one, larger ones first."""
    left = list(reversed(ranges))
    parts: list[tuple[Range, ...]] = []
    for missing in split_evenly(sum(one.samples for one in ranges), num_parts):
        part = []
        while missing:
            head = left.pop()
            if head.samples > missing:
                head, tail = head.cut(missing)
                left.append(tail)
            part.append(head)
            missing -= head.samples
        parts.append(tuple(part))
    return parts
