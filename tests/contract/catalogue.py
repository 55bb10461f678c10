"""The strategies of ``conf/strategy`` (or of a user's project), and the scenarios that every one goes through."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from omegaconf import OmegaConf

from runtime.config.choices import merged
from runtime.config.instantiate import instantiate
from runtime.core.job import Job
from runtime.house import ROOT
from strategies.protocol import Strategy
from tests.support.faults import Fault, Outage, departures, random_outcome, random_seconds, restarts
from tests.support.harness import HeapRun, make_job
from tests.support.scores import random_scores

USERS = os.environ.get("STRAGGLAB_CONTRACT_STRATEGIES", "")
"""Folder with the strategies of a user's project, which alone are then checked (``python run.py check``)."""
CONF = Path(USERS or ROOT / "conf" / "strategy")
NAMES = sorted(path.stem for path in CONF.glob("*.yaml"))
NUM_WORKERS = (1, 2, 4, 64)
SMALL = NUM_WORKERS[:-1]
MODES = ("calm", "restarts", "departures")
SLOW = ("coding_cyclic",)
"""Its code for 64 workers takes as long to draw as all others together; of every commit are those for up to 4."""
RUSHED = {"short_window_s": 5.0, "long_window_s": 8.0, "decide_every_s": 2.0, "cooldown_s": 4.0, "min_slow_s": 0.0}
RUSHED_COUNTS = {"report_iters": 1, "min_records": 2, "warmup_iters": 0, "max_restarts": 2}
HURRIES: dict[str, dict[str, Any]] = {
    **{name: {**RUSHED, **RUSHED_COUNTS} for name in ("antdt_nd", "antdt_nd_asp")},
    "composed": {
        "detectors.speeds.min_records": 1,
        "detectors.speeds.warmup_iters": 0,
        "detectors.stragglers.short_window_s": 5.0,
        "detectors.stragglers.long_window_s": 8.0,
        "detectors.stragglers.report_iters": 1,
        "detectors.stragglers.min_records": 2,
        "detectors.stragglers.warmup_iters": 0,
        "actions.kill_restart.cooldown_s": 4.0,
        "actions.kill_restart.max_restarts": 2,
        "decide_every_s": 2.0,
    },
    "async_local_sgd": {"period": 12},
    "decoupled_diloco": {"period": 3, "grace_s": 0.5},
    "dlrover": {
        "sample_s": 2.0,
        "adjust_every_s": 2.0,
        "ps_interval_s": 4.0,
        "min_interval_s": 1.0,
        "launch_s": 5.0,
        "drain_s": 2.0,
        "hang_s": 10.0,
    },
    "dropcompute": {
        **{"micro_batches": 2, "profile_iters": 2, "warmup_iters": 0},
        **{"divide_by": "computed", "requeue": True},
    },
    "dynamic_x": {"regroup_iters": 1, "warmup_iters": 0},
    "mlfabric": {"lr_rule": "batch_linear"},
    "optimus": {"sample_s": 2.0, "skip_s": 0.0, "adjust_every_s": 2.0, "launch_s": 5.0, "drain_s": 2.0},
    "or_autoscale": {"min_iters": 1, "adjust_every_s": 1.0, "step_workers": 1, "drain_s": 2.0},
    **{name: {"warmup_iters": 0, "redecide_iters": 2, "decision_s": 0.5} for name in ("star_h", "star_ahead")},
    "star_ml": {
        "warmup_iters": 0,
        "redecide_iters": 2,
        "decision_s": 0.5,
        "learning.min_samples": 10,
        "learning.refit_samples": 5,
        "learning.epochs": 3,
        "learning.hold_updates": 2,
        "learning.check_every": 2,
        "learning.max_regret_frac": 10.0,
    },
    "zeno_pp": {
        **{"discard": False, "refresh_every": 3, "rho": 0.0, "rescale": False},
        **{"validation_samples": 3, "warmup_updates": 2},
    },
    "streaming_diloco": {"period": 4, "fragments": 2, "delay": 1},
    "sync_switch": {"bsp_frac": 0.7, "duration_s": 0.5, "switch_s": 0.5, "warmup_iters": 0},
    "sync_switch_elastic": {
        "bsp_frac": 0.7,
        "duration_s": 0.5,
        "tolerance_frac": 2.0,
        "probe_s": 2.0,
        "warmup_iters": 0,
    },
    "sync_switch_restart": {"bsp_frac": 0.7, "duration_s": 2.0, "warmup_iters": 0},
    "watchdog": {
        "detectors.alarms.predictor": "by_chance",
        "detectors.alarms.warmup_iters": 0,
        "detectors.alarms.settings.probability": 0.5,
        "actions.kill_restart.cooldown_s": 4.0,
        "actions.kill_restart.max_restarts": 2,
        "actions.kill_restart.min_slow_s": 0.0,
        "decide_every_s": 2.0,
    },
}
"""Settings under which a strategy that waits for minutes of measurements finds something to do in a scenario."""


@cache
def text_of(name: str) -> Any:
    """A YAML, read once: most of the time of collecting went into that."""
    return merged(name, [CONF, ROOT / "conf" / "strategy"])


def spec(name: str, **changes: Any) -> dict[str, Any]:
    """What a YAML says, with some of it changed; a setting of a part is named by its slot, ``gate.bound``."""
    config = deepcopy(text_of(name)) if any("." in path for path in changes) else text_of(name)
    for path in [path for path in changes if "." in path]:
        OmegaConf.update(config, path, changes.pop(path), force_add=False)
    loaded = OmegaConf.to_container(config, resolve=True)
    return {**{str(key): value for key, value in dict(loaded).items()}, **changes}  # type: ignore[call-overload]


def make(name: str, **changes: Any) -> Strategy:
    strategy: Strategy = instantiate(spec(name, **changes), "strategy")
    return strategy


@cache
def sample(name: str) -> Strategy:
    """One that nobody plays, for what it says of itself: building hundreds of them would delay every collection."""
    return make(name)


@cache
def has_servers(name: str) -> bool:
    """Whether the strategy works with parameter servers; if not, it is played by replicas alone."""
    return "ps" in sample(name).topologies


def on_replicas() -> list[str]:
    """The strategies that need ``topology=allreduce``."""
    return [name for name in NAMES if not has_servers(name)]


def hurried(name: str) -> Strategy:
    """A fresh strategy that has something to decide within seconds."""
    return make(name, **HURRIES.get(name, {}))


@cache
def fits(name: str, num_workers: int) -> bool:
    """Whether the strategy accepts so many workers."""
    try:
        sample(name).validate(num_workers)
    except ValueError:
        return False
    return True


class Case(msgspec.Struct, frozen=True):
    """One strategy, so many workers, and what goes wrong."""

    name: str
    num_workers: int
    mode: str
    seeds: tuple[int, ...]
    """It is played once with each."""
    long: bool = False
    """More of the same: not for every commit."""

    def __str__(self) -> str:
        return f"{self.name}-{self.num_workers}-{self.mode}{'-more' if self.long else ''}"

    def make(self) -> Strategy:
        return hurried(self.name)


@cache
def is_variant(name: str) -> bool:
    """Whether an earlier YAML has the same class: it is played by fewer workers and less often."""
    earlier = NAMES[: NAMES.index(name)]
    return spec(name)["_target_"] in {spec(other)["_target_"] for other in earlier}


@cache
def cases() -> list[Case]:
    """Every combination that makes sense; what is not ``long`` has every strategy, size and mode in it.

    All that can happen does with departures, so every strategy goes through these by 4 workers, and every twelfth by
    64. Restarts it meets with one size, the next strategy with another; every third one has a calm run.
    """
    found = []
    for name, num_workers, mode in product(NAMES, NUM_WORKERS, MODES):
        place, many = NAMES.index(name), num_workers == NUM_WORKERS[-1]
        if (many and is_variant(name)) or not fits(name, num_workers) or (num_workers == 1 and mode == "departures"):
            continue
        sizes = [number for number in SMALL if fits(name, number)]
        seeds = (0, 1) if many or is_variant(name) else (0, 1, 2, 3)
        if mode == "departures":
            first = {4: seeds[1:2], 64: seeds[1:2] if place % 12 == 1 and name not in SLOW else ()}.get(num_workers, ())
        else:
            own = sizes[(place + MODES.index(mode)) % len(sizes)]
            first = (seeds[place % 2],) if num_workers == own and (mode != "calm" or place % 3 == 0) else ()
        more = tuple(seed for seed in seeds if seed not in first)
        found += [Case(name, num_workers, mode, first)] if first else []
        found += [Case(name, num_workers, mode, more, long=True)] if more else []
    return found


def short_cases() -> list[Case]:
    """Those for every commit."""
    return [case for case in cases() if not case.long]


def marked(cases: Iterable[Any], always: Callable[[Any], bool] = lambda case: True) -> list[Any]:
    """As parameters of a test; the tests of one case follow each other (``scope="module"``) and share its runs.

    Of the short ones, only those that are to be there ``always`` are for every commit.
    """
    return [
        pytest.param(case, marks=[pytest.mark.long] if case.long or not always(case) else [], id=str(case))
        for case in cases
    ]


def faults(mode: str, seed: int, num_workers: int) -> list[Fault]:
    """``restarts``: workers and servers that come back; ``departures``: also workers that do not."""
    plan: dict[str, Callable[[], list[Fault]]] = {
        "calm": lambda: [],
        "restarts": lambda: restarts(seed, num_workers),
        "departures": lambda: restarts(seed, num_workers) + departures(seed, num_workers),
    }
    return plan[mode]()


def without_servers(job: Job, plan: Iterable[Fault]) -> tuple[Job, list[Fault]]:
    """The same for replicas: what happens to servers happens to nobody."""
    return msgspec.structs.replace(job, num_servers=0), [fault for fault in plan if not isinstance(fault, Outage)]


def uneven_job(num_workers: int, seed: int, **changes: Any) -> Job:
    """Three epochs, some of them overlapping, with sizes that divide badly."""
    return make_job(
        num_workers=num_workers,
        num_samples=57 + 11 * num_workers,
        global_batch_samples=2 * num_workers + seed % 2,
        batches_per_shard=1 + seed % 3,
        epochs=3,
        epoch_overlap=seed % 3 == 1,
        seed=seed,
        max_time_s=2000.0,
        checkpoint_every_s=5.0,
        **changes,
    )


def scenario(strategy: Strategy, num_workers: int, mode: str, seed: int) -> HeapRun:
    """An uneven job with random durations."""
    job, plan = uneven_job(num_workers, seed), faults(mode, seed, num_workers)
    if "ps" not in strategy.topologies:
        job, plan = without_servers(job, plan)
    outcome = random_outcome(seed) if mode != "calm" else (lambda order: "ok")
    run = HeapRun(strategy, job, random_seconds(seed), plan, outcome)
    run.cosine = random_scores(seed)
    return run
