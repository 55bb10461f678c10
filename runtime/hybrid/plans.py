"""Which rank of a measured hybrid job makes which passes, in which order, and how long they take (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from runtime.hybrid.graph import Floats
from runtime.hybrid.operators import BACKWARD, FORWARD, MESSAGES, PASSES, Job, Operator, Rank, Turns, graph_of
from runtime.hybrid.schedules import alternate

BY_CHANCE, LEAST_FRAC = 3.0, 0.01
"""Ranks whose mean passes differ by fewer standard errors of that difference, or by less, are equally fast."""
MicroBatch = tuple[int, int]
"""Its replica as measured, and its number there."""


class Span(NamedTuple):
    """A pass on a rank, in seconds from the step's start."""

    rank: Rank
    of: Operator
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Plan:
    """A job as it was measured, or as it would be after a cure.

    Attributes:
        seconds: [steps] how long each operator takes; an operator belongs to the replica whose micro-batch it serves.
        turns: the passes of each rank, in their order.
        slowness: how many times as long each rank computes as its stage does in the median replica.
    """

    seconds: Mapping[Operator, Floats]
    turns: Turns
    slowness: Mapping[Rank, float]

    @cached_property
    def step_s(self) -> Floats:
        """[steps]: how long each step takes."""
        return np.asarray(self._ends_s().max(axis=0))

    def spans(self) -> list[Span]:
        """When each rank makes its passes in the first step."""
        end_s = dict(zip(self.seconds, self._ends_s()[:, 0].tolist(), strict=False))
        return [
            Span(rank, one, end_s[one] - float(self.seconds[one][0]), end_s[one])
            for rank, passes in self.turns.items()
            for one in passes
        ]

    def _ends_s(self) -> Floats:
        graph = graph_of(list(self.seconds), self.turns)
        rows = np.stack(list(self.seconds.values()))
        return graph.ends(np.concatenate([rows, np.zeros((len(graph) - len(rows), rows.shape[1]))]))

    @property
    def mean_s(self) -> float:
        """Mean seconds of a step."""
        return float(self.step_s.mean())

    @cached_property
    def replicas(self) -> list[int]:
        """The numbers of the replicas that have ranks."""
        return sorted({replica for replica, _ in self.turns})

    @cached_property
    def stages(self) -> list[int]:
        """The numbers of the stages of each replica."""
        return sorted({stage for _, stage in self.turns})

    @cached_property
    def host(self) -> dict[Operator, Rank]:
        """The rank that makes each pass."""
        return {one: rank for rank, passes in self.turns.items() for one in passes}

    @cached_property
    def numbers(self) -> dict[int, list[int]]:
        """The micro-batches of each replica."""
        first = self.stages[0]
        found: dict[int, list[int]] = {replica: [] for replica in self.replicas}
        for one in sorted(self.host):
            if one.kind == FORWARD and one.stage == first:
                found[one.replica].append(one.number)
        return found

    @cached_property
    def ahead(self) -> dict[Rank, int] | None:
        """Forward passes of each rank before its first pair of passes; None: its order is of another form."""
        found = {}
        for rank, passes in self.turns.items():
            forwards = [one for one in passes if one.kind == FORWARD]
            found[rank] = next((place for place, one in enumerate(passes) if one.kind == BACKWARD), 1) - 1
            if in_pairs(forwards, found[rank]) != list(passes):
                return None
        return found

    @cached_property
    def in_flight(self) -> int:
        """The largest number of micro-batches for which a rank keeps activations at a time."""
        return max(map(most_in_flight, self.turns.values()))

    def only(self, replicas: Iterable[int]) -> Plan:
        """The job without its other replicas."""
        kept = set(replicas)
        return replace(
            self,
            seconds={one: row for one, row in self.seconds.items() if one.replica in kept},
            turns={rank: passes for rank, passes in self.turns.items() if rank[0] in kept},
        )

    def averaged(self) -> Plan:
        """One step, in which each operator takes its mean time."""
        return replace(self, seconds={one: row.mean(keepdims=True) for one, row in self.seconds.items()})

    def moved_s(self, one: Operator, rank: Rank) -> Floats:
        """[steps]: how long a pass would take on a rank, of all that compute as slowly as they do."""
        return self.seconds[one] * (self.slowness[rank] / self.slowness[self.host[one]])


def plan_of(job: Job) -> Plan:
    """The job as it was measured."""
    seconds = dict(zip(job.operators, job.measured_s, strict=True))
    return Plan(seconds, job.turns, _slowness(seconds, job.turns))


def _slowness(seconds: Mapping[Operator, Floats], turns: Turns) -> dict[Rank, float]:
    """How slow each rank is; 1 if that may be chance."""
    work = {
        rank: np.array([seconds[one] + seconds[one._replace(kind=BACKWARD)] for one in passes if one.kind == FORWARD])
        for rank, passes in turns.items()
    }
    found = {}
    for rank, mine in work.items():
        same = [other for (_, stage), other in work.items() if stage == rank[1]]
        usual = sorted(same, key=np.mean)[(len(same) - 1) // 2]  # of two the quicker one: the other may be the slow one
        usual_s = float(usual.mean())
        chance_s = BY_CHANCE * float(np.hypot(mine.std() / mine.size**0.5, usual.std() / usual.size**0.5))
        is_slow = abs(mine.mean() - usual_s) > max(LEAST_FRAC * usual_s, chance_s) and usual_s > 0
        found[rank] = float(mine.mean()) / usual_s if is_slow else 1.0
    return found


def most_in_flight(passes: Iterable[Operator]) -> int:
    """The largest number of micro-batches whose forward pass was made, and whose backward pass was not."""
    count = most = 0
    for one in passes:
        count += 1 if one.kind == FORWARD else -1
        most = max(most, count)
    return most


def in_pairs(forwards: list[Operator], ahead: int) -> list[Operator]:
    """Some forward passes, then pairs, then the other backward passes, all in the order of the forward passes."""
    ahead = max(0, min(ahead, len(forwards) - 1))
    return alternate(forwards, [one._replace(kind=BACKWARD) for one in forwards], ahead)


def with_ahead(plan: Plan, ahead: Mapping[Rank, int]) -> Plan:
    """The same passes with other numbers of forward passes before the first pair."""
    turns = {
        rank: in_pairs([one for one in passes if one.kind == FORWARD], ahead[rank])
        for rank, passes in plan.turns.items()
    }
    return replace(plan, turns=turns)


def with_counts(plan: Plan, counts: Mapping[int, int]) -> Plan:
    """Replicas with other numbers of micro-batches: they keep their first ones, and get the last ones of others.

    A moved micro-batch has its own work, at the speed of its new ranks; if no replica gives one, the mean work of its
    new replica. ``plan.ahead`` must be known.
    """
    assert plan.ahead is not None
    given = iter([(replica, one) for replica, own in plan.numbers.items() for one in own[counts[replica] :]])
    seconds = {one: row for one, row in plan.seconds.items() if one.kind not in (*PASSES, *MESSAGES)}
    served: dict[MicroBatch, list[Operator]] = defaultdict(list)
    for one in plan.seconds:
        if one.kind in (*PASSES, *MESSAGES):
            served[one.replica, one.number].append(one)
    kept = {}
    for replica, own in plan.numbers.items():
        kept[replica] = own[: counts[replica]]
        seconds |= {one: plan.seconds[one] for number in kept[replica] for one in served[replica, number]}
        for number in range(own[-1] + 1, own[-1] + 1 + counts[replica] - len(own)):
            kept[replica].append(number)
            like = [one._replace(number=number) for one in served[replica, own[0]]]
            seconds |= dict(_added(plan, like, next(given, None)))
    at_once = all(count + 1 == len(plan.numbers[replica]) for (replica, _), count in plan.ahead.items())
    turns = {}
    for (replica, stage), ahead in plan.ahead.items():
        forwards = [Operator(replica, stage, FORWARD, number) for number in kept[replica]]
        turns[replica, stage] = in_pairs(forwards, len(forwards) if at_once else ahead)
    return replace(plan, seconds=seconds, turns=turns)


def _added(plan: Plan, added: Iterable[Operator], given: MicroBatch | None) -> Iterator[tuple[Operator, Floats]]:
    """The operators of a micro-batch that a replica gets; messages take the mean time of their link."""
    for one in added:
        if given is not None and one.kind in PASSES:
            moved = Operator(given[0], one.stage, one.kind, given[1])
            yield one, plan.moved_s(moved, (one.replica, one.stage))
        else:
            own = [plan.seconds[one._replace(number=number)] for number in plan.numbers[one.replica]]
            yield one, np.mean(own, axis=0)
