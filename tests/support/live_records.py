"""Generated records of live runs whose costs are known, with noise and outliers that a fit must see through."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.records.load import Run, load_run
from runtime.virtual.costs import Costs
from tests.support.records import Disturbance, Story, apply, compute


class Live:
    """A live run of the cost model ``costs``, event by event: noise on everything, and one value in twenty is far off.

    ``strategy`` is ``bsp`` or ``asp``; noise has the median one, jitter the mean one.
    """

    def __init__(
        self,
        costs: Costs,
        strategy: str = "bsp",
        *,
        seed: int = 0,
        num_workers: int = 4,
        num_servers: int = 2,
        batch: int = 32,
        rounds: int = 60,
        num_parameters: int = 10_000,
        device: dict[str, float] | None = None,
        plan: Sequence[Disturbance] = (),
        noise: float = 0.1,
        outliers: float = 0.05,
        **job: Any,
    ) -> None:
        self.costs, self.strategy, self.plan, self.device = costs, strategy, plan, device
        self.num_workers, self.num_servers, self.batch = num_workers, num_servers, batch
        self.num_bytes = 4 * num_parameters
        self.noise, self.outliers = noise, outliers
        self.random = np.random.default_rng([seed, num_workers, batch, num_parameters, len(strategy), device is None])
        job = {"num_parameters": num_parameters, "num_servers": num_servers, "backend": "torch", **job}
        job |= {"num_workers": num_workers, "global_batch_samples": batch * num_workers, "device": device}
        self.story = Story(strategy, seed=seed, plan=plan, **job)
        self.left = rounds * num_workers
        self.free_s = [0.0] * num_servers
        self.busy = [[0, 0.0, 0.0] for _ in range(num_servers)]
        self.idle_s, self.iteration = [0.0] * num_workers, [0] * num_workers
        self.level = self.random.standard_normal(num_workers)
        self.arrivals: list[tuple[float, int, int, dict[str, Any]]] = []
        self.next_grad = 0

    def write(self, path: Path) -> Run:
        """Live through it, and read it back."""
        self.story.started()
        self.story.lines[-1]["commands"] = [self.order(worker, 0.0, 0.0) for worker in range(self.num_workers)]
        free_s, waiting = 0.0, []
        while self.arrivals:
            arrived_s, grad, worker, given = heapq.heappop(self.arrivals)
            t = max(arrived_s, free_s)
            free_s = t + self.noisy(self.costs.decision_s)
            waiting.append((grad, worker))
            ready = self.strategy == "asp" or len(waiting) == self.num_workers
            commands = self.answer(waiting, t, free_s) if ready else []
            waiting = [] if ready else waiting
            self.story.arrived(t, worker, grad, commands, **given)
        self.report(free_s, 1)
        self.story.finished(free_s)
        return load_run(self.story.write(path))

    def answer(self, waiting: list[tuple[int, int]], t: float, sent_s: float) -> list[dict[str, Any]]:
        """Apply what waits, and on."""
        self.report(t, 5)
        for server in range(self.num_servers):
            num_bytes = self.num_bytes // self.num_servers
            busy_s = self.noisy(self.costs.update_s(num_bytes, len(waiting)))
            asked_s = self.asked(f"server:{server}", t)
            injected_s = asked_s + self.noisy(self.costs.sleep_overshoot_s) if asked_s else 0.0
            begun_s = max(self.free_s[server], sent_s + self.noisy(self.costs.control_s))
            self.free_s[server] = begun_s + busy_s + injected_s
            done = self.busy[server]
            done[0], done[1], done[2] = done[0] + 1, done[1] + busy_s + injected_s, done[2] + injected_s
        commands = [apply(*(grad for grad, _ in waiting))]
        return commands + [self.order(worker, t, sent_s) for _, worker in waiting if self.left > 0]

    def order(self, worker: int, t: float, sent_s: float) -> dict[str, Any]:
        """One iteration, from the order to its arrival."""
        self.left -= 1
        reached_s = sent_s + self.noisy(self.costs.control_s)
        data_s = self.noisy(self.costs.data_s(self.batch))
        delivered_s = max(self.free_s) + self.transfer_s()
        pull_s = max(0.0, delivered_s - reached_s - data_s)
        asked_s = self.asked(f"worker:{worker}", t)
        injected_s = asked_s + self.noisy(self.costs.sleep_overshoot_s) if asked_s else 0.0
        given = {
            "wait_s": reached_s - self.idle_s[worker],
            "data_s": data_s,
            "pull_s": pull_s,
            "compute_s": self.compute_s(worker) + injected_s,
            "send_s": self.transfer_s(),
            "injected_s": injected_s,
            "overrun_s": 0.0,
        }
        if usual_s := self.costs.of_model(self.num_bytes).stage_base_s:
            stage_s = self.noisy(usual_s)
            given |= {"stage_s": stage_s, "compute_s": given["compute_s"] + stage_s}
        self.idle_s[worker] = reached_s + sum(given[part] for part in ("data_s", "pull_s", "compute_s", "send_s"))
        given |= {"iteration": self.iteration[worker], "samples": self.batch}
        arrived_s = self.idle_s[worker] + self.noisy(self.costs.control_s)
        heapq.heappush(self.arrivals, (arrived_s, self.next_grad, worker, given))
        self.next_grad += 1
        self.iteration[worker] += 1
        return compute(worker, self.batch)

    def compute_s(self, worker: int) -> float:
        sigma, rho = self.costs.jitter_sigma, self.costs.jitter_rho
        self.level[worker] = rho * self.level[worker] + (1 - rho**2) ** 0.5 * self.random.standard_normal()
        factor = float(np.exp(sigma * self.level[worker] - sigma**2 / 2)) * self.far_off()
        if self.device is None:
            return (self.costs.compute_base_s + self.costs.compute_per_sample_s * self.batch) * factor
        paced_s = self.device["base_s"] + self.device["per_sample_s"] * self.batch
        return paced_s * factor + self.noisy(self.costs.sleep_overshoot_s)

    def transfer_s(self) -> float:
        return self.noisy(self.costs.transfer_s(self.num_bytes))

    def noisy(self, seconds: float) -> float:
        return seconds * float(np.exp(self.noise * self.random.standard_normal())) * self.far_off()

    def far_off(self) -> float:
        return float(self.random.uniform(3, 10)) if self.random.random() < self.outliers else 1.0

    def asked(self, target: str, t: float) -> float:
        windows = [window for window in self.plan if window["target"] == target]
        return float(sum(window["magnitude"] for window in windows if window["start_s"] <= t < window["end_s"]))

    def report(self, t: float, at_least: int) -> None:
        for server, done in enumerate(self.busy):
            if done[0] >= at_least:
                about = {"updates": done[0], "busy_s": done[1], "injected_s": done[2]}
                self.story.note(t, "Updated", server=server, version=self.story.version, **about)
                self.busy[server] = [0, 0.0, 0.0]
