"""Accounting of a step by the frontier of its stages, and who moves it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, NamedTuple, final

import numpy as np

from predictors.stragglers import Observation
from reading.ranges import NonNegativeFloat, check_settings

STAGES = ("data", "compute", "send")


class Exposed(NamedTuple):
    """The part of the step that one stage adds: its worker, seconds, and the excess over the median worker's time."""

    stage: str
    worker: int
    seconds: float
    excess_s: float


@final
@dataclass(kw_only=True)
class StageFrontier:
    """Tags the worker at the frontier of the stage with the largest excess.

    Source: StageFrontier (arXiv 2606.06751). Every worker reports the seconds of its stages in order, here loading
    data, computing, sending. The frontier after a stage is the largest cumulative time of any worker; its increments
    add up to the step's exposed time. Its *excess* is the increment beyond the median worker's time in that stage. A
    stage without a worker of its own (all are late) has none.

    ``part``: the stage that the last tag is about, one of ``STAGES``.

    Attributes:
        least_frac: excess as a part of the step, at least.
    """

    reads_time: ClassVar[bool] = False
    least_frac: NonNegativeFloat = 0.1

    def __post_init__(self) -> None:
        check_settings(self)
        self._stages: dict[int, tuple[float, ...]] = {}
        self.part = ""

    def update(self, observation: Observation) -> None:
        """Keep the worker's stages; an iteration whose stages are unknown is one stage, computing."""
        known = isfinite(observation.data_s) and isfinite(observation.send_s)
        data_s, send_s = (observation.data_s, observation.send_s) if known else (0.0, 0.0)
        self._stages[observation.worker] = (data_s, observation.iter_s - data_s - send_s, send_s)

    def forget(self, worker: int) -> None:
        self._stages.pop(worker, None)

    def exposed(self) -> list[Exposed]:
        """The accounting of the last iterations, by stage."""
        workers = list(self._stages)
        seconds = np.array([self._stages[worker] for worker in workers])
        totals = seconds.cumsum(axis=1)
        frontier_s = totals.max(axis=0)
        added_s = np.diff(frontier_s, prepend=0.0)
        usual_s = np.median(seconds, axis=0)
        return [
            Exposed(stage, workers[int(totals[:, place].argmax())], float(added_s[place]), float(excess_s))
            for place, (stage, excess_s) in enumerate(zip(STAGES, added_s - usual_s, strict=True))
        ]

    def tags(self, t: float) -> frozenset[int]:
        """The first suspect, or nobody."""
        if len(self._stages) < 2:
            return frozenset()
        found = self.exposed()
        worst = max(found, key=lambda one: one.excess_s)
        enough_s, self.part = self.least_frac * sum(one.seconds for one in found), worst.stage
        return frozenset({worst.worker}) if worst.excess_s > enough_s else frozenset()
