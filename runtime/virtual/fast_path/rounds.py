"""Regular jobs of bound 0: every round is one update of all, and numpy holds the workers."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from runtime.virtual.fast_path.regular import TICK_EVERY, RegularRun
from runtime.virtual.tasks.jitter import BLOCK, Jitter


@final
class Rounds(RegularRun):
    """The loop for bound 0, see :mod:`runtime.virtual.fast_path.regular`."""

    _until_s = -math.inf
    """The time until which the delays that were looked up last are valid."""

    def _loop(self) -> None:
        """Every round is one update of all; numpy holds the workers."""
        workers, decision_s = self.job.num_workers, self.costs.decision_s
        idle_since_s = np.zeros(workers)
        sent_s, issued_s, looked = decision_s, 0.0, 0
        while self.done < self.total:
            columns, handled = self._round(sent_s, issued_s, idle_since_s)
            t = float(handled.max())
            if t > self.job.max_time_s:
                return
            self._timers(t)
            self.version += 1
            self._learn(self.samples * workers, self.lr_scale)
            self.done, self.t = self.done + workers, t
            columns["t"], columns["applied_t"] = handled, np.full(workers, t)
            columns["applied_version"] = np.full(workers, self.version)
            self.rows.block(columns)
            issued_s, sent_s = t, t + decision_s
            self.servers.update(sent_s, workers)
            if self.done - looked >= TICK_EVERY:
                looked = self.done
                if not self._look():
                    return

    def _round(
        self, sent_s: float, issued_s: float, idle_since_s: NDArray[np.float64]
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.float64]]:
        """The columns of one round, and when the coordinator handled each arrival; advances ``idle_since_s``."""
        workers, costs, servers = self.job.num_workers, self.costs, self.servers
        reached_s = sent_s + costs.control_s
        wait_s = np.maximum(0.0, reached_s - idle_since_s)
        loaded_s = reached_s + self.data_s
        sent_params_s = max(reached_s, servers.idle_s)
        delivered_s = sent_params_s + self.transfer_s
        pulled_s = max(loaded_s, delivered_s)
        own_s, overrun_s = self._compute(self._factors())
        asked_s = self._asked(issued_s, own_s)
        injected_s = np.where(asked_s > 0, asked_s + costs.sleep_overshoot_s, 0.0)
        compute_s = own_s + injected_s
        since_s = pulled_s + compute_s
        pushed_s = since_s + self.transfer_s
        taken_s = pushed_s if self.shares_memory else np.maximum(pushed_s, servers.idle_s)
        idle_since_s[:] = taken_s
        everyone = np.arange(workers)
        columns = {
            "worker": everyone,
            "iteration": np.full(workers, self.version),
            "grad": self.version * workers + everyone,
            "version_read": np.full(workers, self.version),
            "samples": np.full(workers, self.samples),
            "assigned_samples": np.full(workers, self.samples),
            "wait_s": wait_s,
            "pull_s": np.full(workers, pulled_s - loaded_s),
            "data_s": np.full(workers, self.data_s),
            "compute_s": compute_s,
            "send_s": taken_s - since_s,
            "injected_s": injected_s,
            "overrun_s": overrun_s,
            "recv_s": np.full(workers, max(0.0, delivered_s - max(sent_params_s, loaded_s))),
        }
        arrived_s = taken_s + costs.control_s
        if not costs.decision_s:
            return columns, arrived_s
        if self.version:
            return columns, self._handled(arrived_s, sent_s)
        return columns, self._handled(np.append(arrived_s, costs.evaluation_s), sent_s)[:-1]

    def _handled(self, arrived_s: NDArray[np.float64], free_s: float) -> NDArray[np.float64]:
        """When a coordinator, free from ``free_s`` on, handles arrivals that take ``decision_s`` each."""
        order = np.argsort(arrived_s, kind="stable")
        handled, decision_s = np.empty_like(arrived_s), self.costs.decision_s
        for place, at_s in zip(order.tolist(), arrived_s[order].tolist(), strict=True):
            t = at_s if at_s >= free_s else free_s
            handled[place] = t
            free_s = t + decision_s
        return handled

    def _iterations(self) -> list[int]:
        return [self.version] * self.job.num_workers

    def _factors(self) -> NDArray[np.float64] | float:
        if not self.costs.jitter_sigma:
            return 1.0
        column = self.version % BLOCK
        if column == 0:
            self._matrix = Jitter.blocks(self.jitter)
        factors: NDArray[np.float64] = self._matrix[column]
        return factors

    def _compute(self, factors: NDArray[np.float64] | float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """As :meth:`runtime.virtual.tasks.workers.Workers._compute_s`, for all workers at once."""
        factors = np.broadcast_to(np.asarray(factors, dtype=np.float64), (self.job.num_workers,))
        if self.paced_s is None:
            return self.real_s * factors, np.zeros(len(factors))
        if self.real_s > self.paced_s:
            real = self.real_s * factors
            return real, np.maximum(real - self.paced_s, 0.0)
        return self.paced_s * factors + self.costs.sleep_overshoot_s, np.zeros(len(factors))

    def _asked(self, t: float, own_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Injected delays of Computes issued at ``t``; looked up again only after a window opened or closed."""
        if t >= self._until_s:
            found = np.array([self.schedule.delay_for(target, t) for target in self.targets])
            self._delays, self._slowdowns = found[:, 0], found[:, 1]
            self._until_s = self.schedule.next_change(t)
        return self._delays + self._slowdowns * own_s
