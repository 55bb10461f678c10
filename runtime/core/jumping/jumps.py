"""When a lab jumps, and how far: to just before the next change, if all jobs are measured (pure)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import msgspec

STEP_S = 2.0**-20
"""Jumps are whole multiples of a microsecond or so, rounded down: they end before what they end for."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a lab runs in full detail, in rounds: iterations of every worker of a job.

    After a change the jobs that it concerns do ``warm_up`` rounds, then ``rounds`` that are measured; ``apart`` times
    as many if their workers do not begin their iterations together, since it takes longer until these are spread
    evenly. The last ``margin`` rounds of a job are in detail, too. As long as nothing changes, ``reach`` times as many
    rounds as are measured may be skipped, then more are measured.
    """

    warm_up: int = 2
    rounds: int = 10
    apart: int = 4
    margin: int = 3
    reach: int = 10

    def __post_init__(self) -> None:
        for name, least in (("warm_up", 0), ("rounds", 1), ("apart", 1), ("margin", 1), ("reach", 1)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name}={value}: must be {least} or more")


class Outlook(NamedTuple):
    """What one running job lets the lab do now."""

    settled: bool
    """Whether it was measured since the last change, and all that it has in progress is as usual."""
    round_s: float = math.inf
    """Seconds of a round of its slowest worker."""
    known_s: float = math.inf
    """Seconds for which what is measured may stand."""
    left_s: float = math.inf
    """Seconds until its data is used up at the measured rate; infinity: it ends otherwise."""


def span_s(now_s: float, next_fixed_s: float, jobs: Collection[Outlook], margin: int) -> float:
    """Seconds by which the lab may jump at ``now_s``; 0: not now.

    ``next_fixed_s``: when something happens that does not depend on how fast jobs are, such as an arrival, a window
    of a plan or a timer. A jump is not worth it if no job does a round in it.
    """
    if not jobs or not all(job.settled for job in jobs):
        return 0.0
    ends_s = min(job.left_s - margin * job.round_s if job.left_s < math.inf else math.inf for job in jobs)
    span = min(next_fixed_s - now_s, ends_s, min(job.known_s for job in jobs))
    if not min(job.round_s for job in jobs) <= span < math.inf:
        return 0.0
    return math.floor(span / STEP_S) * STEP_S
