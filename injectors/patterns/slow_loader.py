"""Slow loaders of a few ranks, each with a queue of batches in front of the rank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import (
    check_count,
    check_name,
    check_number,
    check_one_of,
    check_workers,
    undisturbed_s,
)
from injectors.patterns.picks import check_pick, pick_targets
from injectors.plan import RULES, ClusterShape, Disturbance, Plan, build_plan

LEAD_FRAC = 0.01
"""Part of an iteration by which windows begin early, so that an iteration at an edge meets its own window."""


@final
@dataclass(frozen=True, kw_only=True)
class SlowLoader(Pattern):
    """The loaders of a few targets need x seconds for a batch, longer than an iteration; a queue holds q batches.

    A loader works whenever its queue has room, and the queue is full when the loader becomes slow. A rank that
    computes for c < x seconds first takes batches from the queue, then waits for the loader: n iterations take
    max(n c, (n - q) x + c) seconds instead of n c. A loader with x <= c delays nothing.

    How many batches are in a queue depends on the run, and a plan is made before it: the plan assumes that a rank asks
    for a batch every ``base_s`` seconds unless it waits for one. A job whose iterations are longer for another reason
    (messages, other stragglers) would find more batches in the queue, so its waits are shorter than planned; set
    ``base_s`` to the job's own time per iteration.

    Attributes:
        batch_s: x; None if ``batch_iters`` is given.
        batch_iters: x in units of ``base_s``.
        queue: q, at least 1.
        pick: number of targets, drawn with the seed; None: all of them.
        start_s: seconds since the job's start at which the loaders become slow.
        duration_s: seconds until the loaders are fast again; None: to the end.
        base_s: seconds from batch to batch of a rank that waits for none; None: an undisturbed iteration of the
            cluster.
        targets: ``worker:1``, ``worker:*``.
        name: see :class:`Pattern`.
    """

    batch_s: float | None = None
    batch_iters: float | None = 1.5
    queue: int = 2
    pick: int | None = 1
    start_s: float = 0.0
    duration_s: float | None = None
    base_s: float | None = None
    targets: tuple[str, ...] = ("worker:*",)
    name: str = "slow_loader"

    def __post_init__(self) -> None:
        check_one_of("batch_s", self.batch_s, "batch_iters", self.batch_iters)
        for name in ("batch_s", "batch_iters", "base_s"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0)
        check_count("queue", self.queue)
        check_pick(self.pick)
        check_number("start_s", self.start_s, least=0)
        if self.duration_s is not None:
            check_number("duration_s", self.duration_s, least=0.001)
        check_workers(self.targets)
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """Two windows per target: the first iteration that waits, and all later ones."""
        base_s = undisturbed_s(self.base_s, cluster)
        field = "batch_iters" if self.batch_s is None else "batch_s"
        batch_s: float = getattr(self, field) * (base_s if self.batch_s is None else 1.0)
        if batch_s - base_s > RULES["delay"].most:
            raise ValueError(
                f"{field}={getattr(self, field)}: makes a rank wait for {batch_s - base_s:g} s per iteration; that can "
                f"be {RULES['delay'].most:g} s at most"
            )
        end_s = horizon_s if self.duration_s is None else self.start_s + self.duration_s
        windows = (
            Disturbance(
                start_s=max(self.start_s + from_s, 0.0),
                end_s=min(self.start_s + to_s, end_s),
                target=target,
                kind="delay",
                magnitude=wait_s,
                of_loader=True,
            )
            for target in pick_targets(self.targets, self.pick, cluster, seed, self.name)
            for from_s, to_s, wait_s in waits(base_s, batch_s, self.queue)
        )
        return build_plan(self.name, seed, horizon_s, windows)


def waits(base_s: float, batch_s: float, queue: int) -> Iterator[tuple[float, float, float]]:
    """(from, to, wait) in seconds: iterations that begin in [from, to) after the start wait so long for a batch.

    Batch q + j is ready (j + 1) x after the start, since the loader never rests; the rank asks for batch i after i c.
    """
    if batch_s <= base_s:
        return
    lead_s = LEAD_FRAC * base_s
    first = math.floor((queue - 1) * batch_s / (batch_s - base_s)) + 1
    asked_s = first * base_s
    taken_s = (first - queue + 1) * batch_s
    yield asked_s - lead_s, taken_s + base_s - lead_s, taken_s - asked_s
    yield taken_s + base_s - lead_s, math.inf, batch_s - base_s
