"""Regular jobs of any other bound: each gradient is an update, no worker is more than ``bound`` iterations ahead."""

from __future__ import annotations

import heapq
import math
from collections import deque
from functools import cached_property
from typing import final

from runtime.virtual.fast_path.regular import TICK_EVERY, RegularRun

PUSHED, ARRIVED = range(2)
"""Kinds of heap entries: a worker's gradient has reached the servers, or the coordinator."""
NEXT, SCORED = -1, -2
"""Instead of a worker: the coordinator is free for the next waiting arrival; the first evaluation has returned."""


class Clocks:
    """Iterations finished by each worker, and workers that wait because they are too far ahead (``BoundedGate``)."""

    def __init__(self, num_workers: int, bound: float) -> None:
        self.bound = bound
        self.clock = [0] * num_workers
        self.low = 0
        self.at_clock = {0: num_workers}
        self.blocked: dict[int, list[int]] = {}

    def tick(self, worker: int) -> list[int]:
        """Count an iteration of a worker; return the workers that may continue, in order."""
        if self.bound == math.inf:
            return [worker]
        clock = self.clock[worker] = self.clock[worker] + 1
        at_clock, low = self.at_clock, self.low
        at_clock[clock] = at_clock.get(clock, 0) + 1
        at_clock[clock - 1] -= 1
        if at_clock[low] == 0:
            return self._step(worker, clock)
        if clock - low <= self.bound:
            return [worker]
        self.blocked.setdefault(clock, []).append(worker)
        return []

    def _step(self, worker: int, clock: int) -> list[int]:
        """The slowest clock has advanced: return the workers that this unblocks."""
        free = [worker] if clock - self.low - 1 <= self.bound else []
        if not free:
            self.blocked.setdefault(clock, []).append(worker)
        while not self.at_clock[self.low]:
            del self.at_clock[self.low]
            self.low += 1
        for level in [level for level in self.blocked if level - self.low <= self.bound]:
            free += self.blocked.pop(level)
        return sorted(free)


@final
class Waves(RegularRun):
    """The loop for other bounds, see :mod:`runtime.virtual.fast_path.regular`."""

    @cached_property
    def _finished(self) -> list[int]:
        return [0] * self.job.num_workers

    def _loop(self) -> None:  # noqa: C901 (one loop, unrolled: calls would cost more than what they do)
        """Two heap entries are one iteration."""
        bound = math.inf if self.staleness_hint.bound is None else self.staleness_hint.bound
        job, costs, servers, samples = self.job, self.costs, self.servers, self.samples
        tick = Clocks(job.num_workers, bound).tick
        decision_s, control_s, transfer_s, data_s = costs.decision_s, costs.control_s, self.transfer_s, self.data_s
        overshoot_s, real_s, paced_s, shares_memory = (
            costs.sleep_overshoot_s,
            self.real_s,
            self.paced_s,
            self.shares_memory,
        )
        factors = [jitter.factor for jitter in self.jitter]
        targets, delay_for, write = self.targets, self.schedule.delay_for, self.rows.row
        even = self.experiment.strategy.data == "even"
        left = [self.total // job.num_workers if even else self.total] * job.num_workers
        iterations, idle_since_s = self._finished, [0.0] * job.num_workers
        doing: list[tuple[int, int, float, float, float, float, float, float, float]] = [
            (0, 0, 0, 0, 0, 0, 0, 0, 0)
        ] * job.num_workers
        taken_at_s = [0.0] * job.num_workers
        heap: list[tuple[float, int, int, int]] = [(costs.evaluation_s, ARRIVED, 0, SCORED)]
        waiting: deque[int] = deque()
        push, pop = heapq.heappush, heapq.heappop
        sequence = next_grad = version = 0
        t, free_s, ready = 0.0, decision_s, list(range(job.num_workers))
        limit_s, share, total, update = job.max_time_s, self.lr_scale, self.total, servers.update

        while True:
            for worker in ready:
                if (left[worker] if even else total - next_grad) <= 0:
                    continue
                left[worker] -= 1
                reached_s = free_s + control_s
                loaded_s = reached_s + data_s
                idle_s = servers.idle_s
                sent_s = reached_s if reached_s > idle_s else idle_s
                delivered_s = sent_s + transfer_s
                recv_s = delivered_s - (sent_s if sent_s > loaded_s else loaded_s)
                pulled_s = delivered_s if delivered_s > loaded_s else loaded_s
                overrun_s = 0.0
                if paced_s is None:
                    own_s = real_s * factors[worker]()
                elif real_s > paced_s:
                    own_s = real_s * factors[worker]()
                    overrun_s = max(0.0, own_s - paced_s)
                else:
                    own_s = paced_s * factors[worker]() + overshoot_s
                delay_s, slowdown_frac = delay_for(targets[worker], t)
                asked_s = delay_s + slowdown_frac * own_s
                injected_s = asked_s + overshoot_s if asked_s > 0 else 0.0
                compute_s = own_s + injected_s
                since_s = pulled_s + compute_s
                wait_s = reached_s - idle_since_s[worker]
                doing[worker] = (
                    next_grad,
                    version,
                    wait_s if wait_s > 0.0 else 0.0,
                    pulled_s - loaded_s,
                    compute_s,
                    since_s,
                    injected_s,
                    overrun_s,
                    recv_s if recv_s > 0.0 else 0.0,
                )
                next_grad += 1
                sequence += 1
                push(heap, (since_s + transfer_s, PUSHED, sequence, worker))

            while heap:
                t, kind, _, worker = pop(heap)
                if kind == PUSHED:
                    taken_s = t if shares_memory or servers.idle_s <= t else servers.idle_s
                    taken_at_s[worker] = idle_since_s[worker] = taken_s
                    sequence += 1
                    push(heap, (taken_s + control_s, ARRIVED, sequence, worker))
                elif worker == NEXT:
                    worker = waiting.popleft()
                    break
                elif waiting or t < free_s:  # the coordinator is busy
                    waiting.append(worker)
                    if len(waiting) == 1:
                        sequence += 1
                        push(heap, (free_s, ARRIVED, sequence, NEXT))
                else:
                    break
            else:
                return
            if worker == SCORED:
                free_s, ready = t + decision_s, []
                if waiting:
                    sequence += 1
                    push(heap, (free_s, ARRIVED, sequence, NEXT))
                continue
            if t > limit_s:
                return
            if t > self.next_timer_s:
                self._timers(t)
            version += 1
            self.version, self.t = version, t
            self._learn(samples, share)
            grad, read, wait_s, pull_s, compute_s, since_s, injected_s, overrun_s, recv_s = doing[worker]
            iteration = iterations[worker]
            iterations[worker] = iteration + 1
            send_s = taken_at_s[worker] - since_s
            write((worker, iteration, grad, read, samples, samples, version, t, wait_s, data_s, pull_s, compute_s,
                   send_s, injected_s, overrun_s, recv_s, None, t))  # fmt: skip
            free_s = t + decision_s
            if waiting:
                sequence += 1
                push(heap, (free_s, ARRIVED, sequence, NEXT))
            update(free_s, 1)
            self.done = version
            if version == total or (version % TICK_EVERY == 0 and not self._look()):
                return
            ready = tick(worker)

    def _iterations(self) -> list[int]:
        return self._finished
