"""The costs of a measured job's stragglers: how long its steps are if some operations were ideal (pure).

Source: "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), sections 3 and 4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TypeVar

import numpy as np

from runtime.hybrid.operators import MESSAGES, PASSES, Job, Operator

FEW_FRAC = 0.03
"""Part of the workers: so many of the slowest ones are cured together."""
Worker = tuple[int, int]
"""Replica and stage."""
Group = TypeVar("Group", bound=Hashable)


class WhatIf:
    """What-if answers about one job; all slow-downs are relative to its ideal step.

    Attributes:
        job: its graph with measured and ideal durations.
    """

    def __init__(self, job: Job) -> None:
        self.job = job

    @cached_property
    def ideal_s(self) -> float:
        """Seconds of a step in which all operations of a kind take equally long."""
        return float(self.job.step_s(self.job.ideal_s[:, None])[0])

    @cached_property
    def whole_s(self) -> float:
        """Mean seconds of a step with measured durations."""
        return self.mean_s(lambda one: True)

    @property
    def slowdown(self) -> float:
        """S: how many times as long as an ideal step the job's steps are."""
        return self.whole_s / self.ideal_s

    def mean_s(self, is_measured: Callable[[Operator], bool]) -> float:
        """Mean seconds of a step in which these operators take their measured time, and all others the ideal one."""
        kept = np.array([is_measured(one) for one in self.job.operators])[:, None]
        return float(self.job.step_s(np.where(kept, self.job.measured_s, self.job.ideal_s[:, None])).mean())

    def slowdown_by(self, group_of: Callable[[Operator], Group]) -> dict[Group, float]:
        """The slow-down by each group's operators alone, the largest first."""
        groups = dict.fromkeys(group_of(one) for one in self.job.operators)
        found = {group: self.mean_s(lambda one, g=group: group_of(one) == g) / self.ideal_s for group in groups}  # type: ignore[misc]
        return dict(sorted(found.items(), key=lambda each: -each[1]))

    @cached_property
    def by_replica(self) -> dict[int, float]:
        """The slow-down by each replica alone."""
        return self.slowdown_by(lambda one: one.replica)

    @cached_property
    def by_stage(self) -> dict[int, float]:
        """The slow-down by each stage alone."""
        return self.slowdown_by(lambda one: one.stage)

    @cached_property
    def by_kind(self) -> dict[str, float]:
        """The slow-down by each kind of operation alone; both ends of messages of one direction count as one kind."""
        return self.slowdown_by(kind_of)

    @cached_property
    def by_worker(self) -> dict[Worker, float]:
        """A worker's score, the largest first: the slow-down by its replica or by its stage, whichever is smaller."""
        scores = {
            (one.replica, one.stage): min(self.by_replica[one.replica], self.by_stage[one.stage])
            for one in self.job.operators
        }
        return dict(sorted(scores.items(), key=lambda each: -each[1]))

    @cached_property
    def slowest(self) -> list[Worker]:
        """The slowest ``FEW_FRAC`` of the workers, at least one."""
        return list(self.by_worker)[: max(1, round(FEW_FRAC * len(self.by_worker)))]

    @cached_property
    def cured_by_slowest(self) -> float:
        """M_W: the part of the lost time that is saved if the slowest workers are ideal; 0 if no time is lost."""
        slowest = set(self.slowest)
        cured_s = self.mean_s(lambda one: (one.replica, one.stage) not in slowest)
        lost_s = self.whole_s - self.ideal_s
        return (self.whole_s - cured_s) / lost_s if lost_s > 0 else 0.0

    @cached_property
    def computing(self) -> dict[Worker, float]:
        """Seconds of each worker's passes, relative to the mean of the same stage in other replicas; alone: 1."""
        busy_s: dict[Worker, float] = defaultdict(float)
        for place, one in enumerate(self.job.operators):
            if one.kind in PASSES:
                busy_s[one.replica, one.stage] += float(self.job.measured_s[place].sum())
        of_stage: dict[int, list[float]] = defaultdict(list)
        for (_, stage), seconds in busy_s.items():
            of_stage[stage].append(seconds)
        return {
            (replica, stage): _relative(seconds, sum(of_stage[stage]) - seconds, len(of_stage[stage]) - 1)
            for (replica, stage), seconds in busy_s.items()
        }


def _relative(seconds: float, others_s: float, others: int) -> float:
    """Seconds relative to the mean of others; 1 if there are none, or if they take no time."""
    return seconds * others / others_s if others and others_s > 0 else 1.0


def kind_of(one: Operator) -> str:
    """The operator's kind; ``forward-messages`` and ``backward-messages`` of both ends of messages."""
    return f"{one.kind.split('-')[0]}-messages" if one.kind in MESSAGES else one.kind
