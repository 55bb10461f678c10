"""The cluster's scheduler: how long a requested node is pending until it has a place.

An idle cluster has one at once, a busy one after minutes or hours (AntDT section V-E2: negligible when idle,
dozens of minutes at peak). Waiting times depend on the seed and the number of the restart alone, or on the time, so
they can be replayed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol, final

import msgspec
import numpy as np

from reading import Unreadable
from reading.tables import check_cells, csv_rows
from strategies.protocol import Priority

MAX_PENDING_S = 7 * 24 * 3600.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a node; ``in_use_cores``: of the other nodes of the job for which cores were asked.

    ``in_use_low_cores``: those among them of nodes of low priority.
    """

    cpu_cores: float | None
    """None: no limit was asked for."""
    priority: Priority
    in_use_cores: float
    in_use_low_cores: float = 0.0


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: seconds until there is a place, or why there will be none."""

    pending_s: float = 0.0
    denied: str | None = None
    evicted_after_s: float | None = None
    """Seconds after which the node is taken away again; None: it may stay."""


class Scheduler(Protocol):
    """The scheduler of a cluster that other jobs use, too. Its methods for requests have defaults."""

    @property
    def evict_notice(self) -> bool:
        """Whether a server that is taken away can store its parameters before."""
        return True

    @property
    def evicts(self) -> bool:
        """Whether it takes nodes of low priority away again."""
        return False

    def draw_s(self, t: float, seed: int, number: int) -> float:
        """Pending seconds of the node requested at ``t`` (seconds since the job's start) as number 0, 1, ..."""

    def expected_s(self, t: float) -> float:
        """Expected pending seconds of a node requested at ``t``."""

    def next_change_s(self, t: float) -> float:
        """The time at which the expectation changes; infinity: never."""

    def refuses(self, request: Request) -> str | None:
        """Why a node of the job cannot have so much; None: it can."""
        return None

    def place(self, t: float, seed: int, number: int, request: Request) -> Grant:
        """The answer to the request number 0, 1, ... for a node that was not there before."""
        denied = self.refuses(request)
        return Grant(denied=denied) if denied is not None else Grant(pending_s=self.draw_s(t, seed, number))


def _check(name: str, value: float) -> None:
    if not 0 <= value <= MAX_PENDING_S:
        raise ValueError(f"{name}={value:g}: must be between 0 and {MAX_PENDING_S:g} seconds (a week)")


@final
@dataclass(frozen=True, kw_only=True)
class ConstantPending(Scheduler):
    """Every node waits for ``pending_s`` seconds; 0: the cluster is idle."""

    pending_s: float = 0.0

    def __post_init__(self) -> None:
        _check("pending_s", self.pending_s)

    def draw_s(self, t: float, seed: int, number: int) -> float:
        return self.pending_s

    def expected_s(self, t: float) -> float:
        return self.pending_s

    def next_change_s(self, t: float) -> float:
        return math.inf


@final
@dataclass(frozen=True, kw_only=True)
class LognormalPending(Scheduler):
    """Waiting times are lognormal: half of them longer than ``median_s``, ``sigma`` the deviation of the logarithm.

    A strategy receives the mean.
    """

    median_s: float = 5.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        _check("median_s", self.median_s)
        if not 0 <= self.sigma <= 3:
            raise ValueError(f"sigma={self.sigma:g}: must be between 0 and 3")

    def draw_s(self, t: float, seed: int, number: int) -> float:
        drawn = float(np.random.default_rng([seed, number]).normal())
        return min(MAX_PENDING_S, self.median_s * math.exp(self.sigma * drawn))

    def expected_s(self, t: float) -> float:
        return self.median_s * math.exp(self.sigma**2 / 2)

    def next_change_s(self, t: float) -> float:
        return math.inf


@final
@dataclass(frozen=True, kw_only=True)
class TracePending(Scheduler):
    """Waiting times from a CSV file with the columns ``t_s`` and ``pending_s``: each row holds from its time on."""

    path: str

    def __post_init__(self) -> None:
        try:
            rows = _pending(Path(self.path))
        except Unreadable as error:
            raise ValueError(f"path={self.path}: {error}") from None
        except ValueError:
            raise ValueError(f"path={self.path}: must be CSV with numbers in the columns t_s and pending_s") from None
        times = [t for t, _ in rows]
        if not rows or times[0] != 0 or not all(before < t for before, t in pairwise(times)):
            raise ValueError(f"path={self.path}: t_s must begin with 0 and grow from row to row")
        for _, pending in rows:
            _check("pending_s", pending)
        object.__setattr__(self, "_times", times)
        object.__setattr__(self, "_pending_s", [pending for _, pending in rows])

    def draw_s(self, t: float, seed: int, number: int) -> float:
        return self.expected_s(t)

    def expected_s(self, t: float) -> float:
        return float(self._pending_s[max(0, bisect_right(self._times, t) - 1)])  # type: ignore[attr-defined]

    def next_change_s(self, t: float) -> float:
        times = self._times  # type: ignore[attr-defined]
        position = bisect_right(times, t)
        return float(times[position]) if position < len(times) else math.inf


def _pending(path: Path) -> list[tuple[float, float]]:
    """(t_s, pending_s) of every row; raises ``ValueError`` for a table without such columns."""
    found = csv_rows(path)
    header = next(found, (0, []))[1]
    at_t, at_pending = header.index("t_s"), header.index("pending_s")
    rows = list[tuple[float, float]]()
    for line, cells in found:
        if len(cells) != len(header):
            raise Unreadable(f"line {line} has {len(cells)} cells, the header {len(header)}")
        rows.append((float(cells[at_t]), float(cells[at_pending])))
        check_cells(len(rows), 2)
    return rows
