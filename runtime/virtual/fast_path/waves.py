"""Regular jobs of any other bound: each gradient is an update, no worker is more than ``bound`` iterations ahead.

A loop finds nothing but the order of events and their times: ``_waves.c`` where it was built, else
:mod:`runtime.virtual.fast_path.loop`, its twin. :mod:`runtime.virtual.fast_path.flights` makes rows of them, thousands
at once. Here is what both loops have around them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import final

import numpy as np

from runtime.native import WAVES, native
from runtime.virtual.fast_path.flights import Flights
from runtime.virtual.fast_path.regular import TICK_EVERY, Floats, RegularRun
from runtime.virtual.fast_path.updates import Updates
from runtime.virtual.tasks.jitter import BLOCK


@final
class Waves(RegularRun):
    """The loop for other bounds, see :mod:`runtime.virtual.fast_path.regular`."""

    def _loop(self) -> None:
        self._numbers = {target: number for number, target in enumerate(self.targets)}
        self._changes = [one for one in self.schedule.changes(("delay", "slowdown")) if one.target in self._numbers]
        self._change = 0
        self._server_change_s = self.schedule.next_change(0.0)
        """When a server's delays may change next."""
        self.delayed: dict[int, tuple[float, float]] = {}
        """Seconds and fraction of its own that each worker computes longer, as far as anything was ever asked for."""
        self._change_delays(0.0)
        self.flights, self.updates = Flights(self), Updates(self.servers, self.costs)
        self.updates.begin(0.0)
        self.scores_s = self.scored_s if self.costs.decision_s else math.inf
        """When the result of the first evaluation reaches the coordinator; infinite once it has."""
        even = self.spec.strategy.data == "even"
        self.share = self.total // self.job.num_workers if even else self.total
        """Iterations that a worker may do."""
        if (compiled := native(WAVES)) is None:
            from runtime.virtual.fast_path.loop import follow

            follow(self)
        else:
            from runtime.virtual.fast_path.compiled import Compiled

            Compiled(self, compiled).follow()

    # ---- around the loop ---------------------------------------------------------------------------------------------

    def chunk(self) -> int:
        """Gradients until :meth:`continues` is asked next."""
        return min(TICK_EVERY, self.total - self.done)

    def continues(self) -> bool:
        """Show the view; whether there is more to do."""
        return self.done < self.total and self._look()

    def count(self, handled_s: Sequence[float] | Floats) -> None:
        """Count the updates of gradients that were handled then, since the last call."""
        if len(handled_s):
            self.t = float(handled_s[-1])
        self.version += len(handled_s)
        self.done = self.version
        if self.learner.progress is not None:
            for _ in range(len(handled_s)):
                self._learn(self.samples, self.lr_scale)

    def soon_s(self) -> float:
        """No gradient that is handled before needs a look at anything but itself."""
        first_s = min(self.job.max_time_s, self.next_timer_s, self._delays_s(), self._server_change_s, self.scores_s)
        return math.nextafter(first_s - 2 * self.costs.decision_s, -math.inf)

    def heard_s(self, free_s: float) -> float:
        """The coordinator, free since then, receives the first score: when it is free again."""
        free_s, self.scores_s = max(self.scores_s, free_s) + self.costs.decision_s, math.inf
        return free_s

    def is_due(self, t: float) -> bool:
        """Whether :meth:`look` has something to do for a gradient handled at ``t``."""
        return t > self.next_timer_s or t >= self._delays_s() or t + self.costs.decision_s >= self._server_change_s

    def look(self, t: float) -> None:
        """Run the timers before ``t``, and look up what is delayed from then on; all before is counted."""
        self._timers(t)
        self._change_delays(t)
        sent_s = t + self.costs.decision_s
        if sent_s >= self._server_change_s:
            self.updates.begin(sent_s)
            self._server_change_s = self.schedule.next_change(sent_s)

    def _delays_s(self) -> float:
        """When a worker's delays change next."""
        return self._changes[self._change].t if self._change < len(self._changes) else math.inf

    def _change_delays(self, t: float) -> None:
        """Look up the delays of workers that have changed by ``t``."""
        while self._delays_s() <= t:
            target = self._changes[self._change].target
            self.delayed[self._numbers[target]] = self.schedule.delay_for(target, t)
            self._change += 1

    def own_blocks(self, worker: int) -> Iterator[Floats]:
        """The computing times of all iterations of a worker, some at a time."""
        count = self.block()
        while True:
            factors = self.jitter[worker].block(count) if self.costs.jitter_sigma else np.ones(count)
            yield self.own_s(factors)

    def block(self) -> int:
        """Iterations of a worker whose computing times are drawn at once: many workers may not need more."""
        return min(BLOCK, 1 + self.total // self.job.num_workers)

    def _iterations(self) -> list[int]:
        finished: list[int] = self.flights.finished.tolist()
        return finished
