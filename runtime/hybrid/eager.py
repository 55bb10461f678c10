"""The order in which ranks make passes if each begins one as soon as it is ready (pure)."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from runtime.hybrid.graph import Floats
from runtime.hybrid.operators import BACKWARD, FORWARD, PASSES, Operator, Rank


@dataclass
class _Worker:
    """A rank with the passes that are ready, earliest micro-batches first."""

    limit: int
    busy: bool = False
    in_flight: int = 0
    ready: dict[str, list[tuple[int, Operator]]] = field(default_factory=lambda: {FORWARD: [], BACKWARD: []})
    made: list[Operator] = field(default_factory=list)

    def begin(self) -> Operator | None:
        """The pass that a free rank begins: a backward pass, or else a forward pass if there is memory."""
        ready = self.ready[BACKWARD] or (self.ready[FORWARD] if self.in_flight < self.limit else [])
        if self.busy or not ready:
            return None
        _, one = heapq.heappop(ready)
        self.busy = True
        self.in_flight += one.kind == FORWARD
        self.made.append(one)
        return one


def eager_turns(
    seconds: Mapping[Operator, Floats], host: Mapping[Operator, Rank], limits: Mapping[Rank, int]
) -> tuple[dict[Rank, list[Operator]], float]:
    """The passes of each rank, in their order, and when the last one ends.

    Args:
        seconds: [1] of each operator.
        host: the rank that makes each pass.
        limits: micro-batches for which each rank keeps activations.
    """
    stages = sorted({stage for _, stage in limits})
    later = list(itertools.pairwise(stages))
    beside = {FORWARD: dict(later), BACKWARD: {after: before for before, after in later}}
    follow = {one: list(_followers(one, seconds, beside)) for one in host}
    waits = Counter(other for after in follow.values() for other, _ in after)
    workers = {rank: _Worker(limit) for rank, limit in limits.items()}
    ready_s: dict[Operator, float] = defaultdict(float)
    events = [(0.0, one, False) for one in host if not waits[one]]
    heapq.heapify(events)
    now_s = 0.0
    while events:
        now_s, touched = events[0][0], set[Rank]()
        while events and events[0][0] == now_s:
            _, one, has_ended = heapq.heappop(events)
            worker = workers[host[one]]
            touched.add(host[one])
            if not has_ended:
                heapq.heappush(worker.ready[one.kind], (one.number, one))
                continue
            worker.busy = False
            worker.in_flight -= one.kind == BACKWARD
            for other, message_s in follow[one]:
                ready_s[other] = max(ready_s[other], now_s + message_s)
                waits[other] -= 1
                if not waits[other]:
                    heapq.heappush(events, (ready_s[other], other, False))
        for rank in touched:
            if (begun := workers[rank].begin()) is not None:
                heapq.heappush(events, (now_s + float(seconds[begun][0]), begun, True))
    return {rank: worker.made for rank, worker in workers.items()}, now_s


def _followers(
    one: Operator, seconds: Mapping[Operator, Floats], beside: Mapping[str, Mapping[int, int]]
) -> Iterator[tuple[Operator, float]]:
    """The passes that wait for a pass, and the time of the message to each."""
    if one.kind == FORWARD:
        yield one._replace(kind=BACKWARD), 0.0
    if one.stage in beside[one.kind]:
        later = one._replace(stage=beside[one.kind][one.stage])
        yield later, float(seconds[later._replace(kind=f"{PASSES[one.kind]}-recv")][0])
