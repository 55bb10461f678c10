"""Workers on a virtual clock without a coordinator: a test gives the orders and reads the arrivals."""

from __future__ import annotations

import math
from typing import Any

from runtime.core.data.shards import Range
from runtime.core.job import ComputeOrder
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.tasks.host_workers import HostWorkers
from runtime.virtual.tasks.iteration import Iteration
from runtime.virtual.tasks.model_state import NOTHING
from runtime.virtual.tasks.workers import Workers
from strategies.protocol import Timings


class WorkerModel:
    """Arrivals are written down as (worker, timings, time); who inherits this makes ``workers`` on ``clock``."""

    workers: Workers | HostWorkers

    def __init__(self) -> None:
        self.clock = new_clock()
        self.arrived: list[tuple[int, Timings, float]] = []
        self.issued = 0

    def _arrived(self, iteration: Iteration, timings: Timings, at_s: float) -> None:
        self.arrived.append((iteration.order.worker, timings, at_s))

    def begin(self, sent_s: float, worker: int = 0, samples: int = 20, **given: Any) -> None:
        """A Compute leaves the coordinator."""
        more = {"accum": 1, "delay_s": 0.0, "slowdown_frac": 0.0, **given}
        ranges = (Range(0, 0, 0, samples),)
        order = ComputeOrder(grad_id=self.issued, worker=worker, incarnation=0, version=0, ranges=ranges, **more)
        self.issued += 1
        self.workers.begin(order, NOTHING, sent_s)

    def run(self) -> list[tuple[int, Timings, float]]:
        """Until nothing is under way."""
        while self.clock.next_s < math.inf:
            self.clock.step()
        assert self.workers.under_way == {}
        return self.arrived

    def only(self) -> tuple[Timings, float]:
        """The one arrival, and when it was."""
        [(_, timings, at_s)] = self.run()
        return timings, at_s
