"""STAR-ML against its source: section IV-C2, a model that takes over from STAR-H."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from runtime.core.job import ComputeOrder
from scripts.fitting.train_modes import Agreement, agreement, by_heuristic, draw_questions
from strategies.protocol import Compute, Wake
from strategies.star import Star
from strategies.star.learned import ModeLearner
from strategies.star.times import ModeTimes
from tests.support.faults import Crash
from tests.support.harness import HeapRun, make_job
from tests.support.laws import unlawful

FOUR = (1.0, 1.0, 1.0, 4.0)
COSTS = ModeTimes(mode_cost="pooled", kappa=16.0)
"""With this price every kind of mode is the best one now and then."""


def star_ml(learning: dict[str, Any] | None = None, **changes: Any) -> Star:
    """Last times as predictions, from the first on; the model that comes along decides."""
    changed: dict[str, Any] = {"predictor": "last_value", "warmup_iters": 0, "phi": 1000.0, "pause": False, **changes}
    own = ModeLearner(**{"use_ml_from_start": True, "decision_s": 0.0, **(learning or {})})
    return Star(**{"decision_s": 0.5, "learning": own, "when_calm": "ssgd", **changed})


def run_of(strategy: Star, seconds: Any = FOUR, faults: Any = (), **changes: Any) -> HeapRun:
    job = make_job(**{"global_batch_samples": 512, "max_time_s": 60.0, **changes})
    return HeapRun(strategy, job, list(seconds) if isinstance(seconds, tuple) else seconds, list(faults)).run()


def schedule(run: HeapRun) -> Any:
    return run.core.strategy.parts.schedule  # type: ignore[attr-defined]


def waves() -> Callable[[int, ComputeOrder], float]:
    """Worker 3 is slow in every other ten of its iterations, by more and more."""
    iterations = [0] * 4

    def seconds(worker: int, order: ComputeOrder) -> float:
        iterations[worker] += 1
        slow = worker == 3 and iterations[3] // 10 % 2
        return 1.0 + 0.02 * worker + (1.0 + 0.05 * iterations[3] if slow else 0.0)

    return seconds


@cache
def tried(seed: int = 1, count: int = 100) -> Agreement:
    """The model that comes along, on drawn decisions of which it has learnt nothing (it has learnt those of seed 0)."""
    decisions = [by_heuristic(one, COSTS) for one in draw_questions(seed, count)]
    return agreement(ModeLearner(use_ml_from_start=True).model, decisions)


def test_it_chooses_as_star_h_does() -> None:
    """Section IV-C2: STAR-ML "estimates" what STAR-H computes; here in nine decisions of ten, the rest cost little."""
    found = tried()
    assert found.same_frac >= 0.86, found
    assert found.regret_frac <= 0.005, found


def test_it_decides_from_the_start_if_it_was_trained_before() -> None:
    """Section V-A: trained before the evaluation. Known at 4 s, and decided in no time: updates of three."""
    run = run_of(star_ml(kappa=16.0))
    assert {len(order.grads) for t, order, _ in run.applied if t > 4} == {3}
    said = str(run.core.strategy.log_state()["decision"])
    assert said.endswith("(pooled, kappa 16, by the model)")
    assert run.core.strategy.log_state()["decided_by"] == "model"


def test_workers_wait_for_decisions_of_the_model_also_where_those_of_star_h_take_no_time() -> None:
    """Section V-A: a decision that is not made ahead pauses training until it is made, whoever makes it."""
    strategy = star_ml({"decision_s": 0.25}, decision_s=0.0, pause=True)
    assert Wake in strategy.needs
    run = run_of(strategy)
    given = [(line.event.t, command) for line in run.lines for command in line.commands]
    pauses = [(t, command.at_s) for t, command in given if isinstance(command, Wake) and command.tag == "decided"]
    assert pauses
    assert {round(end_s - t, 6) for t, end_s in pauses} == {0.25}
    begun_s = [t for t, command in given if isinstance(command, Compute)]
    assert not [t for t in begun_s if any(start_s < t < end_s for start_s, end_s in pauses)]
    assert unlawful(run) == []


def test_it_takes_over_when_it_has_learnt_enough() -> None:
    """Section IV-C2: first STAR-H decides, and the model learns from its decisions; then the model decides."""
    own = {"use_ml_from_start": False, "min_samples": 60, "refit_samples": 20, "epochs": 30, "slice_steps": 50}
    run = run_of(star_ml(own, redecide_iters=1, decision_s=0.0), waves(), max_time_s=300.0)
    learner = schedule(run).learning
    assert learner.decides
    assert learner.regret_frac <= 0.05
    assert learner._buffer.rows >= 60
    assert learner._decisions > 10
    assert len(pickle.dumps(run.core.strategy)) < 300_000


def test_what_a_mode_took_is_learnt() -> None:
    """Section IV-C2: what modes really took refines the model. Updates of three cost 3.96 s; pauses are no part."""
    own = {"use_ml_from_start": False, "min_samples": 10_000, "max_samples": 10_000, "hold_updates": 10}
    settings = {"modes": ["static"], "redecide_iters": 10, "kappa": 16.0}
    means_s = []
    for pausing in ({"decision_s": 0.0}, {"decision_s": 0.4, "pause": True}):
        run = run_of(star_ml(own, **settings, **pausing), max_time_s=120.0)
        measured = [one for one in schedule(run).learning._buffer._decisions if one.measured]
        assert len(measured) >= 3
        took_s = [float(np.exp(one.log_s + one.targets)[0]) for one in measured]
        assert took_s == pytest.approx([3.96] * len(took_s), rel=0.08)
        assert [one.weights for one in measured] == [pytest.approx([1.02])] * len(measured)
        means_s.append(fmean(took_s))
    assert means_s[1] == pytest.approx(means_s[0], rel=0.01)


def test_a_worker_that_leaves_ends_what_is_measured() -> None:
    """Beyond the paper: what a mode took while workers came and went is not its own."""
    own = {"use_ml_from_start": False, "min_samples": 10_000, "max_samples": 10_000, "hold_updates": 5}
    crashes = [Crash(6.0 + 4.0 * number, 0, 1.0) for number in range(13)]
    run = run_of(star_ml(own, redecide_iters=10, decision_s=0.0), faults=crashes)
    assert not [one for one in schedule(run).learning._buffer._decisions if one.measured]
    assert unlawful(run) == []
