"""Regular jobs of any other bound: each gradient is an update, no worker is more than ``bound`` iterations ahead.

The loop finds nothing but the order of events and their times; :mod:`runtime.virtual.fast_path.flights` makes rows of
them, thousands at once. It needs no heap: gradients reach the coordinator in the order in which the servers took them,
and those on their way to the servers are sorted again only when one is earlier than all that were sorted before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice, repeat
from typing import final

import numpy as np

from runtime.virtual.fast_path.clocks import Clocks
from runtime.virtual.fast_path.flights import Flights
from runtime.virtual.fast_path.regular import TICK_EVERY, RegularRun
from runtime.virtual.fast_path.updates import Updates
from runtime.virtual.tasks.jitter import BLOCK

Sent = tuple[float, int, int]
"""When a gradient is at the servers, its number, its worker. At the same time, the one ordered first comes first."""


@final
class Waves(RegularRun):
    """The loop for other bounds, see :mod:`runtime.virtual.fast_path.regular`."""

    _change, _server_change_s = 0, 0.0
    """The next change of a worker's delays, and when a server's may change."""

    def _loop(self) -> None:  # noqa: C901 (one loop, unrolled: calls would cost more than what they do)
        job, costs, total, limit_s = self.job, self.costs, self.total, self.job.max_time_s
        decision_s, control_s, transfer_s, data_s = costs.decision_s, costs.control_s, self.transfer_s, self.data_s
        overshoot_s, shares_memory = costs.sleep_overshoot_s, self.shares_memory
        flights, updates = self._flights, Updates(self.servers, self.costs)
        workers, taken, note_orders = flights.workers, flights.taken_s, flights.ordered.append
        note_grad, note_worker, note_taken = flights.grads.append, workers.append, taken.append
        note_handled, note_idle = flights.handled_s.append, flights.idle_s.append
        note_compute = flights.compute_s.append
        self._numbers = {target: number for number, target in enumerate(self.targets)}
        self._changes = [one for one in self.schedule.changes(("delay", "slowdown")) if one.target in self._numbers]
        self._delayed: dict[int, tuple[float, float]] = {}
        delayed, own = self._delayed, [self._own(worker) for worker in range(job.num_workers)]
        bound = self.staleness_hint.bound
        tick = None if bound is None else Clocks(job.num_workers, bound).tick
        alone = [(worker,) for worker in range(job.num_workers)]

        place, stop, next_grad = 0, min(TICK_EVERY, total), 0
        sent: list[Sent] = []  # the last is the first
        fresh: list[Sent] = []  # not sorted yet; none is before `first_s`
        at_s, grad, worker = math.inf, 0, 0  # the very first of all
        first_s = next_s = math.inf  # the coordinator handles the next gradient
        free_s, reached_s = decision_s, decision_s + control_s
        idle_s = max(reached_s, self.servers.idle_s)  # nobody could tell whether they have been idle before
        ready: Sequence[int] = range(job.num_workers)
        note_orders((place, job.num_workers - 1))
        scores_s = self.scored_s if decision_s else math.inf
        self._change_delays(0.0)
        last = updates.begin(0.0)
        self._server_change_s = self.schedule.next_change(0.0)
        busy_s, injected_update_s = last or (0.0, 0.0)
        soon_s = 0.0

        while True:
            for going in ready:
                if next_grad == total:
                    break
                own_s = own[going]()
                if own_s is None:  # it has computed its share
                    note_orders((place, -1))
                    continue
                compute_s = own_s
                if delayed and going in delayed:
                    delay_s, slowdown_frac = delayed[going]
                    asked_s = delay_s + slowdown_frac * own_s
                    injected_s = asked_s + overshoot_s if asked_s > 0 else 0.0
                    compute_s = own_s + injected_s
                    flights.injected.append((next_grad, own_s, injected_s))
                note_compute(compute_s)
                loaded_s = reached_s + data_s
                pulled_s = idle_s + transfer_s
                if loaded_s > pulled_s:
                    pulled_s = loaded_s
                pushed_s = pulled_s + compute_s + transfer_s
                if pushed_s < at_s:
                    sent.append((at_s, grad, worker))
                    at_s, grad, worker = pushed_s, next_grad, going
                else:
                    fresh.append((pushed_s, next_grad, going))
                    if pushed_s < first_s:
                        first_s = pushed_s
                next_grad += 1

            while at_s <= next_s:
                taken_s = at_s if at_s >= idle_s or shares_memory else idle_s
                note_grad(grad)
                note_worker(worker)
                note_taken(taken_s)
                if next_s == math.inf:
                    next_s = taken_s + control_s
                    if next_s < free_s:
                        next_s = free_s
                at_s, grad, worker = sent.pop()
                if first_s < at_s:
                    sent += fresh
                    sent.append((at_s, grad, worker))
                    sent.sort(reverse=True)
                    fresh.clear()
                    first_s = math.inf
                    at_s, grad, worker = sent.pop()

            t = next_s
            if t >= soon_s:
                if (arrived_s := taken[place] + control_s) >= scores_s:  # the first evaluation has returned before
                    free_s = max(scores_s, free_s) + decision_s
                    next_s, scores_s, ready = max(arrived_s, free_s), math.inf, ()
                    continue
                if t > limit_s:
                    break
                if t > self.next_timer_s:
                    self._settle(updates, place, idle_s)
                    self._timers(t)
                self._change_delays(t)
                if t + decision_s >= self._server_change_s:
                    self._settle(updates, place, idle_s)
                    last = updates.begin(t + decision_s)
                    busy_s, injected_update_s = last or (0.0, 0.0)
                    self._server_change_s = self.schedule.next_change(t + decision_s)
                soon_s = self._soon_s(scores_s)
            note_handled(t)
            free_s = t + decision_s
            reached_s = free_s + control_s
            if last is None:
                idle_s = updates.all(reached_s)
            else:
                idle_s = (idle_s if idle_s > reached_s else reached_s) + busy_s + injected_update_s
            note_idle(idle_s)
            done_by = workers[place]
            place += 1
            if place == stop:
                self._settle(updates, place, idle_s)
                flights.land(place)
                if self.done == total or not self._look():
                    return
                place, stop = 0, min(TICK_EVERY, total - self.done)
            if place < len(taken):
                next_s = taken[place] + control_s
                if next_s < free_s:
                    next_s = free_s
            else:
                next_s = math.inf
            if tick is None:
                ready = alone[done_by]
            else:
                ready = tick(done_by)
                if len(ready) != 1:
                    note_orders((place, len(ready) - 1))
        self._settle(updates, place, idle_s)
        flights.land(place)

    # ---- around the loop ---------------------------------------------------------------------------------------------

    def _settle(self, updates: Updates, place: int, idle_s: float) -> None:
        """Count the updates of what was handled before ``place``."""
        count = self._flights.made + place - self.version
        handled_s = self._flights.handled_s[place - count : place]
        updates.settle(handled_s, idle_s)
        if count:
            self.t = handled_s[-1]
        self.version += count
        self.done = self.version
        if self.learner.progress is not None:
            for _ in range(count):
                self._learn(self.samples, self.lr_scale)

    def _change_delays(self, t: float) -> None:
        """Look up the delays of workers that have changed by ``t``."""
        while self._change < len(self._changes) and self._changes[self._change].t <= t:
            target = self._changes[self._change].target
            self._delayed[self._numbers[target]] = self.schedule.delay_for(target, t)
            self._change += 1

    def _soon_s(self, scores_s: float) -> float:
        """No gradient that is handled before needs a look at anything but itself."""
        change_s = self._changes[self._change].t if self._change < len(self._changes) else math.inf
        first_s = min(self.job.max_time_s, self.next_timer_s, self._server_change_s, change_s, scores_s)
        return math.nextafter(first_s - 2 * self.costs.decision_s, -math.inf)

    def _own(self, worker: int) -> Callable[[], float | None]:
        """Returns the computing times of a worker, one after another; None for those beyond its share."""
        found: Iterator[float] = chain.from_iterable(self._own_blocks(worker))
        if self.experiment.strategy.data == "even":
            return chain(islice(found, self.total // self.job.num_workers), repeat(None)).__next__
        return found.__next__

    def _own_blocks(self, worker: int) -> Iterator[Sequence[float]]:
        """Those of all its iterations, some at a time."""
        count = min(BLOCK, 1 + self.total // self.job.num_workers)  # many workers may not need more
        while True:
            factors = self.jitter[worker].block(count) if self.costs.jitter_sigma else np.ones(count)
            yield self.own_s(factors).tolist()

    @cached_property
    def _flights(self) -> Flights:
        return Flights(self)

    def _iterations(self) -> list[int]:
        finished: list[int] = self._flights.finished.tolist()
        return finished
