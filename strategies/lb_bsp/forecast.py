"""LB-BSP on processors: predicts every worker's speed from its past speeds and resources (pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, final

from predictors.base import SpeedPredictor, SpeedRecord
from predictors.by_speed import SPEED_PREDICTORS, prepare, speed_predictor
from reading.ranges import Checked, NonNegativeInt, OneOf, PositiveFrac, PositiveInt
from strategies.parts.monitoring.base import Warmup
from strategies.protocol import AnyEvent, Arrived, NodeId, Observed, Started

NO_USE = (1.0, 1.0)
"""Processor and memory without telemetry."""


@dataclass
class ForecastSettings:
    """How speeds are predicted (``kind: cpu``).

    Attributes:
        predictor: ``narx``, ``arx``, ``ema`` or ``last`` (cpu).
        ema_alpha: weight of the newest iteration (cpu, ema), in (0, 1].
        min_records: iterations of a worker before its own speed counts (cpu).
        confirm_iters: iterations in a row that must have been slow before a worker counts as slow (cpu).
        warmup_iters: first iterations of a process that are ignored.
    """

    predictor: Annotated[str, OneOf(*SPEED_PREDICTORS)] = "narx"
    ema_alpha: PositiveFrac = 0.2
    min_records: PositiveInt = 5
    confirm_iters: PositiveInt = 1
    warmup_iters: NonNegativeInt = 3


@final
@dataclass
class Forecast(Checked, ForecastSettings):
    """One predictor per worker.

    Telemetry reports what a worker used, not what was available to it; use represents it, and the last report
    represents the next iteration (persistence). Without telemetry both are 1, and only past speeds count.
    A worker is as slow as the fastest of its last ``confirm_iters`` iterations.
    """

    def start(self, started: Started) -> None:
        self._warmup = Warmup(self.warmup_iters)
        self._of: dict[int, SpeedPredictor] = {}
        self._newest: dict[int, deque[float]] = {}
        self._uses: dict[str, tuple[float, float]] = {}

    def observe_event(self, event: AnyEvent) -> None:
        if isinstance(event, Arrived):
            if self._warmup.tells(event):
                self.arrived(event)
        elif isinstance(event, Observed):
            self.note_use(event)

    def arrived(self, event: Arrived) -> None:
        """Train the worker's predictor with an iteration, if its time is usable."""
        worker = event.grad.worker
        cpu, memory = self._use(worker)
        newest = self._newest.setdefault(worker, deque(maxlen=self.confirm_iters))
        newest.append(event.grad.samples / event.timings.bpt_s)
        record = SpeedRecord(max(newest), cpu, memory)
        self._predictor(worker).update(record)

    def note_use(self, event: Observed) -> None:
        """Keep what the tasks used; an unknown quantity stays 1."""
        for node in event.nodes:
            cpu = 1.0 if node.cpu_cores is None else node.cpu_cores
            memory = 1.0 if node.memory_bytes is None else float(node.memory_bytes)
            self._uses[node.node] = (cpu, memory)

    def speeds(self, workers: Sequence[int]) -> list[float]:
        """Samples per second of the next iteration, by worker, all positive.

        A worker with too few records gets the median of the others; all get 1 if none has enough.
        """
        enough = {worker: one for worker in workers if (one := self._predictor(worker)).records >= self.min_records}
        prepare(list(enough.values()))
        known = {worker: max(1e-9, one.predict(*self._use(worker))) for worker, one in enough.items()}
        middle = median(known.values()) if known else 1.0
        return [known.get(worker, middle) for worker in workers]

    def _use(self, worker: int) -> tuple[float, float]:
        return self._uses.get(str(NodeId.worker(worker)), NO_USE)

    def _predictor(self, worker: int) -> SpeedPredictor:
        if worker not in self._of:
            self._of[worker] = speed_predictor(self.predictor, self.ema_alpha)
        return self._of[worker]
