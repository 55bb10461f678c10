"""Planted hybrid jobs, each with one known straggler or none, simulated by events; shares no code with the graphs."""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from runtime.hybrid.operators import BACKWARD, FORWARD, PASSES, Operator, Rank, Table, Turns, arrange

FORWARD_S, BACKWARD_S, MESSAGE_S = 0.010, 0.020, 0.001
STEPS = 8
"""Steps of each table, and of each cured job."""
SLOW_RANK, SLOW_LINK, BOTH, LEVEL = "slow rank", "slow link", "slow rank and link", "level stages"
LONG_STAGE, UNEQUAL = "long stage", "unequal sequences"
CAUSES = (SLOW_RANK, SLOW_LINK, BOTH, LONG_STAGE, UNEQUAL, "none")


@dataclass(frozen=True)
class Truth:
    """A planted job.

    Attributes:
        cause: one of ``CAUSES``.
        size: replicas, stages and micro-batches.
        rank, factor: of a slow rank, or of the long stage in all replicas.
        delay_s: added to messages between the rank's stage and the next one, in its replica.
        sigma: of micro-batches' lognormal work.
        jitter: of each pass, lognormal.
    """

    cause: str
    size: tuple[int, int, int]
    rank: Rank = (0, 0)
    factor: float = 1.0
    delay_s: float = 0.0
    sigma: float = 0.0
    jitter: float = 0.03
    seed: int = 0

    def factor_of(self, rank: Rank) -> float:
        """Factor by which a rank's passes take longer."""
        mine = {SLOW_RANK: rank == self.rank, BOTH: rank == self.rank, LONG_STAGE: rank[1] == self.rank[1]}
        return self.factor if mine.get(self.cause, self.cause == LEVEL) else 1.0

    def message_s(self, replica: int, stage: int) -> float:
        """Between a stage and the next one."""
        return MESSAGE_S + (self.delay_s if (replica, stage) == self.rank else 0.0)

    @cached_property
    def mean(self) -> Truth:
        """The same job without noise."""
        return replace(self, jitter=0.0, sigma=0.0)


def draw_jobs(count: int, seed: int = 0) -> list[Truth]:
    """Planted jobs, of the causes in turn."""
    draw = np.random.default_rng(seed)
    found = []
    for number in range(count):
        cause = CAUSES[number % len(CAUSES)]
        replicas, stages = int(draw.integers(2, 4)), int(draw.integers(2, 5))
        micro_batches = int(draw.integers(stages, 8))
        last = stages - (cause in (SLOW_LINK, BOTH))
        truth = Truth(cause, (replicas, stages, micro_batches), seed=seed * count + number)
        truth = replace(truth, rank=(int(draw.integers(replicas)), int(draw.integers(last))))
        if cause in (SLOW_RANK, BOTH, LONG_STAGE):
            truth = replace(truth, factor=float(draw.uniform(1.3, 3.0)))
        if cause in (SLOW_LINK, BOTH):
            truth = replace(truth, delay_s=float(draw.uniform(0.010, 0.060)))
        if cause == UNEQUAL:
            truth = replace(truth, sigma=float(draw.uniform(0.2, 0.6)))
        found.append(truth)
    return found


class Noise:
    """The work of each micro-batch, and the jitter of each pass, of one step."""

    def __init__(self, truth: Truth, step: int, first_seed: int) -> None:
        draw = np.random.default_rng((truth.seed, first_seed, step))
        replicas, stages, micro_batches = truth.size
        total = replicas * micro_batches  # a replica may get all of them
        loads = np.exp(truth.sigma * draw.standard_normal((replicas, total)) - truth.sigma**2 / 2)
        self.jitter = np.exp(truth.jitter * draw.standard_normal((replicas, stages, total, 2)))
        self.loads = loads

    def seconds(self, truth: Truth, one: Operator, host: Rank) -> float:
        """A pass on a rank."""
        base_s = FORWARD_S if one.kind == FORWARD else BACKWARD_S
        jitter = self.jitter[one.replica, one.stage, one.number, int(one.kind == BACKWARD)]
        return float(base_s * self.loads[one.replica, one.number] * truth.factor_of(host) * jitter)


class Span(NamedTuple):
    """When an operator of the simulation began, and when it ended."""

    begin_s: float
    end_s: float


Choose = Callable[[Rank, set[Operator], int], Operator | None]
"""The pass that a free rank begins: of those that are ready, with so many micro-batches in flight."""


class Simulation:
    """A step of a planted job; ``spans`` has its passes, and its messages by their sending pass as ``send``.

    Two ranks exchange one message at a time in each direction.
    """

    def __init__(self, truth: Truth, noise: Noise, host: Mapping[Operator, Rank], choose: Choose) -> None:
        self.truth, self.noise, self.host = truth, noise, host
        self.spans: dict[Operator, Span] = {}
        self._ready: dict[Rank, set[Operator]] = defaultdict(set)
        self._in_flight: dict[Rank, int] = defaultdict(int)
        self._link_free_s: dict[tuple[Rank, Rank, str], float] = defaultdict(float)
        self._busy = set[Rank]()
        self._events: list[tuple[float, int, Operator, bool]] = []
        self._count = itertools.count()
        for one in sorted(host, key=lambda each: each.number):
            if one.kind == FORWARD and one.stage == 0:
                self._add(0.0, one, has_ended=False)
        while self._events:
            self._next(choose)

    @property
    def last_s(self) -> float:
        """When the last operator ends."""
        return max(span.end_s for span in self.spans.values())

    def _add(self, at_s: float, one: Operator, *, has_ended: bool) -> None:
        heapq.heappush(self._events, (at_s, next(self._count), one, has_ended))

    def _next(self, choose: Choose) -> None:
        """All events of one moment, and then the passes that begin."""
        now_s, touched = self._events[0][0], set[Rank]()
        while self._events and self._events[0][0] == now_s:
            _, _, one, has_ended = heapq.heappop(self._events)
            touched.add(self.host[one])
            if has_ended:
                self._end(one, now_s)
            else:
                self._ready[self.host[one]].add(one)
        for rank in touched - self._busy:
            if (begun := choose(rank, self._ready[rank], self._in_flight[rank])) is not None:
                self._ready[rank].remove(begun)
                self._busy.add(rank)
                self._in_flight[rank] += begun.kind == FORWARD
                self.spans[begun] = Span(now_s, now_s + self.noise.seconds(self.truth, begun, rank))
                self._add(self.spans[begun].end_s, begun, has_ended=True)

    def _end(self, one: Operator, now_s: float) -> None:
        rank, last = self.host[one], self.truth.size[1] - 1
        self._busy.discard(rank)
        self._in_flight[rank] -= one.kind == BACKWARD
        if one.kind == FORWARD and one.stage == last:
            self._add(now_s, one._replace(kind=BACKWARD), has_ended=False)
        stage = one.stage + (1 if one.kind == FORWARD else -1)
        if 0 <= stage <= last:
            later = one._replace(stage=stage)
            link = (rank, self.host[later], one.kind)
            begin_s = max(now_s, self._link_free_s[link])
            self._link_free_s[link] = begin_s + self.truth.message_s(one.replica, min(one.stage, stage))
            self.spans[one._replace(kind=f"{PASSES[one.kind]}-send")] = Span(begin_s, self._link_free_s[link])
            self._add(self._link_free_s[link], later, has_ended=False)


def in_turn(turns: Turns) -> Choose:
    """Ranks make their passes in this order."""
    left = {rank: list(reversed(passes)) for rank, passes in turns.items()}

    def choose(rank: Rank, ready: set[Operator], in_flight: int) -> Operator | None:
        return left[rank].pop() if left[rank] and left[rank][-1] in ready else None

    return choose


def eager(limits: Mapping[Rank, int]) -> Choose:
    """Ranks begin backward passes first, and forward passes if their memory allows; early micro-batches first."""

    def choose(rank: Rank, ready: set[Operator], in_flight: int) -> Operator | None:
        allowed = [one for one in ready if one.kind == BACKWARD or in_flight < limits[rank]]
        return min(allowed, key=lambda one: (one.kind == FORWARD, one.number, one.replica), default=None)

    return choose


def one_by_one(size: tuple[int, int, int], counts: Sequence[int], ahead: Sequence[int]) -> Turns:
    """1F1B with other numbers of micro-batches of each replica, and of forward passes before the first pair."""
    turns: dict[Rank, list[Operator]] = {}
    for replica, stage in itertools.product(range(size[0]), range(size[1])):
        passes, begun = list[Operator](), 0
        for number in range(counts[replica]):
            while begun < min(counts[replica], number + ahead[stage] + 1):
                passes.append(Operator(replica, stage, FORWARD, begun))
                begun += 1
            passes.append(Operator(replica, stage, BACKWARD, number))
        turns[replica, stage] = passes
    return turns


def hosted_by(turns: Turns) -> dict[Operator, Rank]:
    """The rank of each pass."""
    return {one: rank for rank, passes in turns.items() for one in passes}


def usual(truth: Truth) -> Turns:
    """1F1B, with equally many micro-batches."""
    replicas, stages, micro_batches = truth.size
    return one_by_one(truth.size, [micro_batches] * replicas, range(stages - 1, -1, -1))


def table_of(truth: Truth) -> Table:
    """The operators of a planted job."""
    turns, rows = usual(truth), []
    for step in range(STEPS):
        found = Simulation(truth, Noise(truth, step, 0), hosted_by(turns), in_turn(turns)).spans
        for one, span in found.items():
            times = (span.begin_s, span.end_s - span.begin_s)
            rows.append((one.replica, one.stage, step, one.kind, one.number, *times))
            if one.kind.endswith("send"):
                way = one.kind.split("-")[0]
                later = one.stage + (1 if way == "forward" else -1)
                rows.append((one.replica, later, step, f"{way}-recv", one.number, *times))
    return arrange(*zip(*rows, strict=True))


def run_s(truth: Truth, turns: Turns, noises: Sequence[Noise]) -> float:
    """Mean seconds of a step in which ranks make these passes."""
    host = hosted_by(turns)
    return float(np.mean([Simulation(truth, noise, host, in_turn(turns)).last_s for noise in noises]))
