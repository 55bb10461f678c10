"""The scheduler of a cluster that limits what one job may have, and takes some of it away again (pure).

A job is entitled to ``cores_total``; up to ``cores_max`` it may have more with low priority, while nobody else wants
it. A large node waits longer for a place than a small one. (DLRover section 4: quotas, and workers that are preempted
first.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from runtime.core.scheduling import MAX_PENDING_S, Grant, Request, Scheduler

CORE_DIGITS = 9
"""Digits of a core that count: 0.4 and 0.2 are no more than 0.6."""


@final
@dataclass(frozen=True, kw_only=True)
class Quota(Scheduler):
    """Nodes for which no cores are asked do not count.

    Args:
        cores_total: cores that the nodes of normal priority may have together; None: no limit.
        cores_max: cores that all nodes may have together; None: as many as ``cores_total``.
        pending_s: seconds that every node is pending.
        pending_s_per_core: further seconds for every core that is asked for.
        evict_after_s: mean seconds after which a node of low priority is taken away, exponentially distributed; None:
            it may stay.
        evict_notice: whether a server that holds parameters can store them before it is taken away; else the job goes
            back to its last checkpoint.
    """

    cores_total: float | None = None
    cores_max: float | None = None
    pending_s: float = 0.0
    pending_s_per_core: float = 0.0
    evict_after_s: float | None = None
    evict_notice: bool = True

    def __post_init__(self) -> None:
        for name in ("cores_total", "cores_max", "evict_after_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name}={value:g}: must be more than 0, or null")
        for name in ("pending_s", "pending_s_per_core"):
            if not 0 <= (value := getattr(self, name)) <= MAX_PENDING_S:
                raise ValueError(f"{name}={value:g}: must be between 0 and {MAX_PENDING_S:g} seconds (a week)")
        if not isinstance(self.evict_notice, bool):
            raise ValueError(f"evict_notice={self.evict_notice}: must be true or false")
        if self.cores_max is not None and self.cores_total is None:
            raise ValueError(f"cores_max={self.cores_max:g}: needs cores_total")
        if self.cores_max is not None and self.cores_total is not None and self.cores_max < self.cores_total:
            raise ValueError(f"cores_max={self.cores_max:g}: must be at least cores_total={self.cores_total:g}")

    @property
    def evicts(self) -> bool:
        return self.evict_after_s is not None

    def draw_s(self, t: float, seed: int, number: int) -> float:
        return self.pending_s

    def expected_s(self, t: float) -> float:
        return self.pending_s

    def next_change_s(self, t: float) -> float:
        return math.inf

    def refuses(self, request: Request) -> str | None:
        if request.cpu_cores is None:
            return None
        most = self.cores_total if self.cores_max is None else self.cores_max
        limits = [("cores_total" if self.cores_max is None else "cores_max", most, request.in_use_cores)]
        if request.priority == "normal":
            limits.insert(0, ("cores_total", self.cores_total, request.in_use_cores - request.in_use_low_cores))
        for name, limit, in_use in limits:
            if limit is not None and round(in_use + request.cpu_cores - limit, CORE_DIGITS) > 0:
                return f"{request.cpu_cores:g} cores asked, {in_use:g} in use, {name}={limit:g}"
        return None

    def place(self, t: float, seed: int, number: int, request: Request) -> Grant:
        if (denied := self.refuses(request)) is not None:
            return Grant(denied=denied)
        pending_s = min(MAX_PENDING_S, self.pending_s + self.pending_s_per_core * (request.cpu_cores or 0.0))
        if request.priority != "low" or self.evict_after_s is None:
            return Grant(pending_s=pending_s)
        drawn = float(np.random.default_rng([seed, number]).exponential(self.evict_after_s))
        return Grant(pending_s=pending_s, evicted_after_s=drawn)
