"""Seeded chance for runs on the heap: how long Computes take, who crashes when, which gradients go wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import msgspec

from runtime.core.coordinator import MAX_NONFINITE
from runtime.core.job import ComputeOrder

SECONDS = (0.5, 0.75, 1.0, 1.0, 1.25, 4.0)
"""Multiples of one quarter, so that many events fall on the same instant."""


class Crash(msgspec.Struct, frozen=True):
    """A worker's process dies; the next one is there ``back_after_s`` later, or never (None)."""

    at_s: float
    worker: int
    back_after_s: float | None


class Outage(msgspec.Struct, frozen=True):
    """The servers are gone for ``down_s``, longer if a worker is not back by then."""

    at_s: float
    down_s: float


class Preempted(msgspec.Struct, frozen=True):
    """The cluster takes the job's places; it has others ``away_s`` after it has left."""

    at_s: float
    grace_s: float
    away_s: float


Fault = Crash | Outage | Preempted


def quarters(random: Random, low_s: float, high_s: float) -> float:
    """A multiple of one quarter of a second."""
    return random.randint(int(low_s * 4), int(high_s * 4)) / 4


def random_seconds(seed: int) -> Callable[[int, ComputeOrder], float]:
    """Durations that depend on the Compute alone, so that two strategies that order the same see the same."""
    return lambda worker, order: Random(f"{seed}/{worker}/{order.grad_id}").choice(SECONDS)


def random_outcome(seed: int) -> Callable[[ComputeOrder], str]:
    """One Compute in twenty fails and one in forty is not finite, never one of those that follow directly.

    Of many workers one may draw several of these one after another: the third in a row, which would end the job, is ok.
    """
    in_a_row: Counter[int] = Counter()

    def outcome(order: ComputeOrder) -> str:
        drawn = "ok"
        if order.grad_id % 5 == 0:
            drawn = Random(f"{seed}/outcome/{order.grad_id}").choices(("ok", "failed", "nan"), (5, 2, 1))[0]
        in_a_row[order.worker] += drawn == "nan"
        if drawn == "ok" or in_a_row[order.worker] == MAX_NONFINITE:
            in_a_row[order.worker] = 0
            return "ok"
        return drawn

    return outcome


def restarts(seed: int, num_workers: int, horizon_s: float = 30.0, outages: int = 2) -> list[Fault]:
    """Workers that crash (some again while they restart) and servers that have to be restored."""
    random = Random(f"{seed}/restarts")
    plan: list[Fault] = []
    for _ in range(random.randint(2, 3 + min(num_workers, 12))):
        at_s, worker = quarters(random, 0, horizon_s), random.randrange(num_workers)
        plan.append(Crash(at_s, worker, quarters(random, 0.25, 6)))
        if random.random() < 0.3:
            plan.append(Crash(at_s + quarters(random, 0, 4), worker, quarters(random, 0.25, 6)))
    for _ in range(random.randint(0, outages)):
        plan.append(Outage(quarters(random, 0, horizon_s), quarters(random, 0.25, 5)))
    return plan


def departures(seed: int, num_workers: int, horizon_s: float = 30.0) -> list[Fault]:
    """Workers that leave for good, at any moment: while they compute, wait, or restart. Somebody always stays."""
    random = Random(f"{seed}/departures")
    leavers = random.sample(range(num_workers), random.randint(1, min(num_workers - 1, 8)))
    plan: list[Fault] = []
    for worker in leavers:
        at_s = quarters(random, 0, horizon_s)
        if random.random() < 0.5:
            plan.append(Crash(max(0.0, at_s - quarters(random, 0.25, 2)), worker, 5.0))
        plan.append(Crash(at_s, worker, None))
    return plan


def preemptions(seed: int, horizon_s: float = 30.0) -> list[Fault]:
    """One to four, some while the job is still leaving, away, or coming back; every second job loses processes, too."""
    random = Random(f"{seed}/preemptions")
    plan: list[Fault] = [
        Preempted(quarters(random, 0, horizon_s), random.choice((0.0, 0.5, 60.0)), quarters(random, 0, 8))
        for _ in range(random.randint(1, 4))
    ]
    if random.random() < 0.5:
        plan += [Crash(quarters(random, 0, horizon_s), 0, 2.0), Outage(quarters(random, 0, horizon_s), 1.5)]
    return plan
