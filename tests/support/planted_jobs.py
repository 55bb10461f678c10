"""Virtual jobs with planted stragglers, and the tables of step times that they would log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from injectors.plan import Disturbance, Plan, build_plan
from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.parse import parse
from runtime.run.checks.job import check_job
from runtime.run.timing import Forgetful, outcome_of_job
from stragglab.grids.advice import FIXED
from strategies.protocol import Arrived

BASE_S, PER_SAMPLE_S, BATCH = 0.02, 0.00125, 32
USUAL_S = BASE_S + PER_SAMPLE_S * BATCH
HORIZON_S = 600.0
COSTS = """schema: 1
values: {jitter_sigma: %s, jitter_rho: 0.3, control_s: 0.0004, latency_s: 0.0004, update_base_s: 0.001}
"""


@dataclass(frozen=True)
class Planted:
    """A job whose truth is known: its plan, and the ranks that are slow in at least one step in twenty."""

    workers: int
    steps: int
    sigma: float
    plan: Plan
    slow: frozenset[int]


class Logging(Forgetful):
    """Keeps what a job could log of each whole iteration."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def event(self, t: float, event: object, commands: object, version: int, decide_us: float, state: object) -> None:
        if isinstance(event, Arrived) and event.grad.samples == BATCH:
            own_s = event.timings.data_s + event.timings.compute_s
            step, injected_s = event.grad.iteration, event.timings.injected_s
            self.rows.append({"rank": event.grad.worker, "step": step, "work": own_s, "injected": injected_s, "end": t})

    @property
    def table(self) -> pd.DataFrame:
        """Of a job with barriers: ``rank``, ``step``, ``work``, of that ``injected``, and ``seconds`` of the round."""
        frame = pd.DataFrame(self.rows).astype({"rank": "int64", "step": "int64"})
        ends = frame.groupby("step")["end"].max()
        rounds = ends.diff().fillna(ends.iloc[0])
        return frame.assign(seconds=frame["step"].map(rounds)).drop(columns="end")


def planted(seed: int, workers: int, steps: int) -> Planted:
    """Draw up to a third of the ranks: each is slow throughout, or for some windows, by factors from 1.4 to 4."""
    rng = np.random.default_rng([seed, workers])
    slow = rng.choice(workers, size=rng.integers(1, max(2, workers // 3 + 1)), replace=False)
    sigma = float(rng.choice([0.005, 0.02, 0.04]))
    windows: list[Disturbance] = []
    for rank in slow.tolist():
        magnitude = float(rng.uniform(0.4, 3.0))
        if rng.random() < 0.4:
            windows.append(_window(rank, 0.0, HORIZON_S, magnitude))
            continue
        at_s = float(rng.uniform(0.0, 0.2 * steps * USUAL_S))
        while at_s < HORIZON_S:
            length_s = float(rng.uniform(0.05, 0.2) * steps * USUAL_S)
            windows.append(_window(rank, at_s, at_s + length_s, magnitude))
            at_s += length_s + float(rng.uniform(0.1, 0.5) * steps * USUAL_S)
    return Planted(workers, steps, sigma, build_plan("planted", seed, HORIZON_S, windows), frozenset(slow.tolist()))


def run_planted(one: Planted, strategy: str, folder: Path) -> tuple[float, Logging]:
    """JCT in seconds, and what the job could log."""
    costs = folder / f"costs_{one.sigma}.yaml"
    costs.write_text(COSTS % one.sigma)
    raw = {**composed(strategy), "max_time_s": HORIZON_S}
    raw["cluster"] = {
        **raw["cluster"],
        "num_workers": one.workers,
        "device": {"base_s": BASE_S, "per_sample_s": PER_SAMPLE_S},
        "costs": str(costs),
    }
    task = {**raw["workload"]["task"], "num_samples": one.steps * BATCH * one.workers}
    raw["workload"] = {
        **raw["workload"],
        "task": task,
        "global_batch_samples": BATCH * one.workers,
        "epochs": 1,
        "batches_per_shard": 1,
    }
    log = Logging()
    outcome = outcome_of_job(replace(check_job(parse(raw)), plan=one.plan), log)
    assert outcome.status == "done"
    return outcome.t, log


@cache
def composed(strategy: str) -> dict[str, Any]:
    with composing(parse_arguments([])) as composer:
        raw: dict[str, Any] = composer.raw([*FIXED, f"strategy={strategy}", "topology.num_servers=2"])
    return raw


def calm(one: Planted) -> Planted:
    """The same job without stragglers."""
    return replace(one, plan=build_plan("calm", 0, HORIZON_S, []), slow=frozenset())


def _window(rank: int, start_s: float, end_s: float, magnitude: float) -> Disturbance:
    return Disturbance(
        start_s=start_s, end_s=end_s, target=f"worker:{rank}", kind="slowdown", magnitude=magnitude, of_machine=True
    )
