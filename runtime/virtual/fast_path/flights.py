"""Rows of gradients, thousands at once, of nothing but the order of their events and the times of these."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from runtime.virtual.fast_path.notes import Noted
from runtime.virtual.fast_path.regular import Floats, RegularRun

Arrays = dict[str, NDArray[Any]]


@final
class Flights:
    """Makes rows of what :class:`runtime.virtual.fast_path.waves.Waves` notes, and keeps what is on its way then."""

    def __init__(self, run: RegularRun) -> None:
        self.run = run
        workers = run.job.num_workers
        self.finished = np.zeros(workers, np.int64)
        self.made, self._next = 0, 0
        """Rows; the number of the next gradient whose order is not in ``_under_way``."""
        self._idle_since_s = np.zeros(workers)
        self._last_s = (run.costs.decision_s, run.servers.idle_s)
        """When the coordinator was free, and the servers, after the last row."""
        self._under_way: Arrays | None = None

    def land(self, noted: Noted) -> None:
        """Write a row of each gradient that was handled."""
        rows = len(noted.grads)
        if not rows:
            return
        run, taken_s, handled_s = self.run, noted.taken_s, noted.handled_s
        orders = self._orders(noted)
        at = np.searchsorted(orders["grad"], noted.grads)
        reached_s, sent_s, own_s, injected_s = (
            orders[name][at] for name in ("reached_s", "sent_s", "own_s", "injected_s")
        )
        loaded_s = reached_s + run.data_s
        delivered_s = sent_s + run.transfer_s
        pulled_s = np.maximum(delivered_s, loaded_s)
        compute_s = own_s + injected_s
        small = noted.senders.astype(np.min_scalar_type(run.job.num_workers))  # numpy sorts those by radix
        by_worker = np.argsort(small, kind="stable")
        iteration, idle_since_s = self._of_workers(noted.senders, taken_s, by_worker)
        version = self.made + 1 + np.arange(rows)
        run.rows.block({
            "worker": noted.senders,
            "iteration": iteration,
            "grad": noted.grads,
            "version_read": orders["version"][at],
            "samples": run.samples,
            "assigned_samples": run.samples,
            "applied_version": version,
            "t": handled_s,
            "wait_s": np.maximum(0.0, reached_s - idle_since_s),
            "data_s": run.data_s,
            "pull_s": pulled_s - loaded_s,
            "compute_s": compute_s,
            "send_s": taken_s - (pulled_s + compute_s),
            "injected_s": injected_s,
            "overrun_s": run.overrun_s(own_s),
            "recv_s": np.maximum(delivered_s - np.maximum(sent_s, loaded_s), 0.0),
            "applied_t": handled_s,
        })  # fmt: skip
        left = np.ones(len(orders["grad"]), bool)
        left[at] = False
        self._under_way = {name: values[left] for name, values in orders.items()}
        self._last_s = (handled_s[-1] + run.costs.decision_s, noted.idle_at_s[-1])
        self.made += rows

    def _orders(self, noted: Noted) -> Arrays:
        """Computes that are not in rows yet, by number: when their worker and all servers can begin with them."""
        run, num_orders = self.run, len(noted.own_s)
        free_s = noted.handled_s + run.costs.decision_s
        reached_s = np.concatenate([self._last_s[:1], free_s])[noted.after] + run.costs.control_s
        idle_s = np.concatenate([self._last_s[1:], noted.idle_at_s])[noted.after]
        orders = {
            "grad": self._next + np.arange(num_orders),
            "version": self.made + noted.after,
            "reached_s": reached_s,
            "sent_s": np.maximum(reached_s, idle_s),
            "own_s": noted.own_s,
            "injected_s": noted.injected_s,
        }
        self._next += num_orders
        if self._under_way is None:
            return orders
        return {name: np.concatenate([self._under_way[name], values]) for name, values in orders.items()}

    def _of_workers(
        self, workers: NDArray[np.int64], taken_s: Floats, by_worker: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Floats]:
        """The number of each gradient among those of its worker, and since when this was idle before it."""
        found, starts, counts = np.unique(workers[by_worker], return_index=True, return_counts=True)
        iteration, idle_since_s = np.empty_like(workers), np.empty_like(taken_s)
        rank = np.arange(len(workers)) - starts.repeat(counts)
        iteration[by_worker] = rank + self.finished[found].repeat(counts)
        before_s = np.concatenate([[0.0], taken_s[by_worker][:-1]])
        before_s[starts] = self._idle_since_s[found]
        idle_since_s[by_worker] = before_s
        self.finished[found] += counts
        self._idle_since_s[found] = taken_s[by_worker][starts + counts - 1]
        return iteration, idle_since_s
