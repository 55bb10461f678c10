"""Rows of gradients, thousands at once, of nothing but the order of their events and the times of these."""

from __future__ import annotations

from array import array
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from runtime.virtual.fast_path.regular import Floats, RegularRun

Arrays = dict[str, NDArray[Any]]


@final
class Flights:
    """What :class:`runtime.virtual.fast_path.waves.Waves` notes, and what is on its way when rows are made of that."""

    def __init__(self, run: RegularRun) -> None:
        self.run = run
        self.grads, self.workers, self.taken_s = array("q"), array("q"), array("d")
        """Gradients in the order in which they reach servers and coordinator: number, worker, when servers took it."""
        self.handled_s, self.idle_s = array("d"), array("d")
        """Of each of these: when the coordinator handles it, and when the servers have done its update."""
        self.compute_s = array("d")
        """By number: how long the gradient takes."""
        self.ordered: list[tuple[int, int]] = []
        """How many Computes more than one follow each gradient of these (0: the one before the first)."""
        self.injected: list[tuple[int, float, float]] = []
        """Numbers of delayed gradients, with the computing time of their own and the injected one."""
        workers = run.job.num_workers
        self.finished = np.zeros(workers, np.int64)
        self.made, self._next = 0, 0
        """Rows; the number of the next gradient whose order is not in ``_under_way``."""
        self._idle_since_s = np.zeros(workers)
        self._last_s = (run.costs.decision_s, run.servers.idle_s)
        """When the coordinator was free, and the servers, after the last row."""
        self._under_way: Arrays | None = None

    def land(self, rows: int) -> None:
        """Write rows of the first ``rows`` gradients, all of which are handled, and forget them."""
        if not rows:
            return
        run = self.run
        grads, workers = np.array(self.grads[:rows]), np.array(self.workers[:rows])
        taken_s, handled_s = np.array(self.taken_s[:rows]), np.array(self.handled_s)
        orders = self._orders(handled_s + run.costs.decision_s)
        at = np.searchsorted(orders["grad"], grads)
        mine = {name: values[at] for name, values in orders.items()}
        small = workers.astype(np.min_scalar_type(run.job.num_workers))  # numpy sorts those by radix
        by_worker = np.argsort(small, kind="stable")
        iteration, idle_since_s = self._of_workers(workers, taken_s, by_worker)
        version = self.made + 1 + np.arange(rows)
        run.rows.block({
            "worker": workers,
            "iteration": iteration,
            "grad": grads,
            "version_read": mine["version"],
            "samples": run.samples,
            "assigned_samples": run.samples,
            "applied_version": version,
            "t": handled_s,
            "wait_s": np.maximum(0.0, mine["reached_s"] - idle_since_s),
            "data_s": run.data_s,
            "pull_s": mine["pull_s"],
            "compute_s": mine["compute_s"],
            "send_s": taken_s - mine["since_s"],
            "injected_s": mine["injected_s"],
            "overrun_s": mine["overrun_s"],
            "recv_s": mine["recv_s"],
            "applied_t": handled_s,
        })  # fmt: skip
        left = np.ones(len(orders["grad"]), bool)
        left[at] = False
        self._under_way = {name: values[left] for name, values in orders.items()}
        self._last_s = (self.handled_s[-1] + run.costs.decision_s, self.idle_s[-1])
        self.made += rows
        del self.grads[:rows], self.workers[:rows], self.taken_s[:rows]
        del self.handled_s[:], self.idle_s[:], self.compute_s[:], self.ordered[:], self.injected[:]

    def _orders(self, free_s: Floats) -> Arrays:
        """Computes that are not in rows yet, by number."""
        run, num_orders, rows = self.run, len(self.compute_s), len(free_s)
        follow = np.ones(rows + 1, np.int64)
        for place, number in self.ordered:
            follow[place] += number
        after = np.arange(rows + 1).repeat(follow)[:num_orders]
        reached_s = np.concatenate([self._last_s[:1], free_s])[after] + run.costs.control_s
        idle_s = np.concatenate([self._last_s[1:], np.array(self.idle_s)])[after]
        loaded_s = reached_s + run.data_s
        sent_s = np.maximum(reached_s, idle_s)
        delivered_s = sent_s + run.transfer_s
        pulled_s = np.maximum(delivered_s, loaded_s)
        own_s = compute_s = np.array(self.compute_s)
        injected_s = np.zeros(num_orders)
        if self.injected:
            numbers, own, injected = (np.array(values) for values in zip(*self.injected, strict=True))
            own_s = compute_s.copy()
            own_s[numbers - self._next], injected_s[numbers - self._next] = own, injected
        orders = {
            "grad": self._next + np.arange(num_orders),
            "version": self.made + after,
            "reached_s": reached_s,
            "pull_s": pulled_s - loaded_s,
            "compute_s": compute_s,
            "since_s": pulled_s + compute_s,
            "injected_s": injected_s,
            "overrun_s": run.overrun_s(own_s),
            "recv_s": np.maximum(delivered_s - np.maximum(sent_s, loaded_s), 0.0),
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
