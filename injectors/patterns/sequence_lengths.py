"""Work that depends on the lengths of a batch's sequences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from injectors.patterns.base import Pattern
from injectors.patterns.fields import (
    MAX_SLOTS,
    check_count,
    check_flag,
    check_name,
    check_number,
    check_one_of,
    check_workers,
    count_slots,
    expand_targets,
    one_line,
    undisturbed_s,
)
from injectors.patterns.streams import stream
from injectors.patterns.tables import Floats, check_path, column_numbers, read_table
from injectors.plan import RULES, ClusterShape, Disturbance, Plan, build_plan


@final
@dataclass(frozen=True, kw_only=True)
class SequenceLengths(Pattern):
    """In every iteration each target has work in proportion to the lengths of its sequences, drawn per iteration.

    The job's own computing is the part that all batches have in common. The sequences add ``added_frac`` x W times as
    much; W is the mean of ``num_sequences`` draws of mean 1. So an iteration of one rank takes 1 + ``added_frac`` times
    its own computing on average, and a barrier waits for the largest W of all ranks. ``balance`` is the cure: the
    sequences of a step are divided so that every rank has the same work.

    A plan is made before any iteration happens, so time is divided into slots of one undisturbed iteration; an
    iteration meets the slot in which it begins. Iterations are longer than a slot, so no two iterations share a draw,
    unless a strategy makes batches smaller.

    Attributes:
        sigma: standard deviation of the logarithm of a length (lognormal); None if ``path`` is given.
        path: CSV or Parquet file of lengths, one row per sequence, from which lengths are drawn with
            replacement; their unit does not matter.
        length_column: column of the lengths; other columns are ignored.
        num_sequences: sequences of a target in an iteration.
        added_frac: mean added part of an iteration's own computing time.
        balance: every target has the mean work of the slot.
        base_s: seconds of a slot, an undisturbed iteration; None: from the cluster.
        targets: ``worker:1``, ``worker:*``.
        name: see :class:`Pattern`.
    """

    sigma: float | None = 1.0
    path: str | None = None
    length_column: str = "length"
    num_sequences: int = 1
    added_frac: float = 1.0
    balance: bool = False
    base_s: float | None = None
    targets: tuple[str, ...] = ("worker:*",)
    name: str = "sequence_lengths"

    def __post_init__(self) -> None:
        check_one_of("sigma", self.sigma, "path", self.path)
        if self.sigma is not None:
            check_number("sigma", self.sigma, least=0, most=2)
        if self.path is not None:
            check_path(self.path)
        if not isinstance(self.length_column, str) or not self.length_column:
            raise ValueError(f"length_column={one_line(self.length_column)}: must name a column of the file")
        check_count("num_sequences", self.num_sequences)
        check_number("added_frac", self.added_frac, least=0, most=RULES["slowdown"].most)
        check_flag("balance", self.balance)
        if self.base_s is not None:
            check_number("base_s", self.base_s, least=0.001)
        check_workers(self.targets)
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per slot and target."""
        targets = expand_targets(self.targets, cluster)
        slot_s = undisturbed_s(self.base_s, cluster)
        slots = count_slots("base_s", slot_s, horizon_s, len(targets), 1.0)
        if (draws := slots * len(targets) * self.num_sequences) > MAX_SLOTS:
            raise ValueError(
                f"num_sequences={self.num_sequences}: makes {draws:.3g} draws for {horizon_s:g} s and {len(targets)} "
                "targets; use fewer, or a smaller max_time_s"
            )
        lengths = None if self.path is None else _lengths(self.path, self.length_column)
        work = np.array([self._work(target, slots, lengths, seed) for target in targets])
        if self.balance:
            work = np.broadcast_to(work.mean(axis=0), work.shape)
        added = self.added_frac * work
        if (largest := float(added.max())) > (most := RULES["slowdown"].most):
            raise ValueError(
                f"added_frac={self.added_frac}: makes an iteration longer by {largest:g} times its own computing time; "
                f"that can be {most:g} at most"
            )
        return build_plan(self.name, seed, horizon_s, _windows(targets, added, slot_s))

    def _work(self, target: str, slots: int, lengths: Floats | None, seed: int) -> Floats:
        """[slots]: the work of ``target``, of mean 1."""
        # two uniform draws per sequence in either case; numpy may change its other samplers
        draws = stream(seed, self.name, target).random((slots, self.num_sequences, 2))
        if lengths is None:
            assert self.sigma is not None
            normal = np.sqrt(-2 * np.log1p(-draws[..., 0])) * np.cos(2 * math.pi * draws[..., 1])
            drawn = np.exp(self.sigma * normal - self.sigma**2 / 2)
        else:
            drawn = lengths[(draws[..., 0] * len(lengths)).astype(int)]
        return np.asarray(drawn.mean(axis=1))


def _windows(targets: list[str], added: Floats, slot_s: float) -> Iterator[Disturbance]:
    for target, own in zip(targets, added, strict=True):
        for slot, magnitude in enumerate(own.tolist()):
            yield Disturbance(
                start_s=slot * slot_s,
                end_s=(slot + 1) * slot_s,
                target=target,
                kind="slowdown",
                magnitude=magnitude,
            )


def _lengths(path: str, column: str) -> Floats:
    """The lengths of a file, divided by their mean."""
    table = read_table(path, (column,), others=True, settings={column: "length_column"})
    try:
        if not table.places:
            raise ValueError("has no rows")
        found = column_numbers(column, table.columns[column], table.places)
        for bad in np.flatnonzero(found < 0)[:1]:
            raise ValueError(f"{table.places[bad]}, column {column}, {found[bad]:g}: must be 0 or more")
        if not found.any():
            raise ValueError(f"column {column}: all lengths are 0")
    except ValueError as error:
        raise ValueError(f"path={path}: {error}") from None
    return np.asarray(found / found.mean())
