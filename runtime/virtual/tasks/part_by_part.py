"""An iteration on a shared machine whose worker looks at the time after each micro-batch, and may end there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, final

from runtime.virtual.machines.interface import Then
from strategies.protocol import split_evenly

if TYPE_CHECKING:
    from runtime.virtual.compiled._hosts import Chained
    from runtime.virtual.tasks.host_workers import HostWorkers


@final
class PartByPart:
    """One iteration whose worker looks at the time after each micro-batch: it works, is paced, and sleeps a delay."""

    def __init__(self, workers: HostWorkers, iteration: Chained) -> None:
        self.workers, self.iteration = workers, iteration
        self.profile = workers.profiles[iteration.order.worker]
        self.samples = [0, *accumulate(split_evenly(iteration.samples, iteration.order.accum))]
        self.ends_s: list[float] = []
        self.injected_s = 0.0

    def _share(self, seconds: Callable[[int, int], float]) -> float:
        """The seconds of the micro-batch in hand."""
        done = len(self.ends_s)
        before_s = seconds(self.samples[done], done) if done else 0.0
        return seconds(self.samples[done + 1], done + 1) - before_s

    def begin(self) -> None:
        """Begin the next micro-batch."""
        workers, costs, name = self.workers, self.workers.costs, self.workers.names[self.iteration.order.worker]
        whole_s = costs.compute_s(self.samples[-1], len(self.samples) - 1)
        real_s = self.iteration.amount * (self._share(costs.compute_s) / whole_s if whole_s else 0.0)
        paced_s = 0.0 if self.profile is None else self._share(self.profile.seconds) * self.iteration.factor
        self.begun_s = workers.clock.now
        if not workers.on_devices:
            workers.machines.compute(name, real_s, partial(self._computed, paced_s))
            return
        emulated = real_s < paced_s
        self._overrun(real_s - paced_s)
        seconds = costs.slept_s(paced_s) if emulated else real_s
        workers.machines.compute_on_device(name, seconds, self._paced, emulated=emulated)

    def _computed(self, paced_s: float) -> None:
        late_s = self.workers.clock.now - self.begun_s - paced_s
        self._overrun(late_s)
        if late_s < 0:
            self._sleep(-late_s, self._paced)
        else:
            self._paced()

    def _overrun(self, late_s: float) -> None:
        if self.profile is not None and late_s > 0:
            self.iteration.overrun_s += late_s

    def _paced(self) -> None:
        order, spent_s = self.iteration.order, self.workers.clock.now - self.begun_s
        size, self.paced_at_s = self._share(lambda samples, _: samples), self.workers.clock.now
        asked_s = order.delay_s * size / self.samples[-1] + order.slowdown_frac * spent_s
        if asked_s > 0:
            self._sleep(asked_s, self._end)
        else:
            self._end()

    def _sleep(self, seconds: float, then: Then) -> None:
        name = self.workers.names[self.iteration.order.worker]
        self.workers.machines.sleep(name, self.workers.costs.slept_s(seconds), then)

    def _end(self) -> None:
        """The micro-batch has been computed: begin another, or end the iteration."""
        workers, iteration, now = self.workers, self.iteration, self.workers.clock.now
        if iteration.void:
            return
        self.injected_s += now - self.paced_at_s
        self.ends_s.append(now - iteration.since_s)
        done, count = len(self.ends_s), len(self.samples) - 1
        if done < count and iteration.order.goes_on(self.ends_s[-1]):
            self.begin()
            return
        worker, costs = iteration.order.worker, workers.costs
        whole_s = costs.compute_s(self.samples[-1], count)
        left = 1.0 - costs.compute_s(self.samples[done], done) / whole_s if whole_s else 0.0
        assert iteration.cpu_s is not None
        iteration.cpu_s -= left * iteration.amount / workers.stretch(worker) * workers.uses_cores
        iteration.computed_s = now - self.injected_s
        workers.ends_s[worker] = tuple(self.ends_s)
        iteration.go("computed")
