"""How long STAR's decisions about modes take: by STAR-H's simulation, and by the model of STAR-ML."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median, quantiles

import pytest

from scripts.fitting.train_modes import agreement, by_heuristic, draw_questions
from strategies.star.choice import Choice
from strategies.star.learned import ModeLearner
from strategies.star.orders import simulate
from strategies.star.server_question import Question, ServerQuestion
from strategies.star.times import ModeTimes

from .goals import MODEL_DECISION, MODEL_GOALS
from .probe import Probe
from .replay import recorded_clock, replay_peer
from .report import Report, table
from .rounds import Comparison, bracketed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600), pytest.mark.benchmark(timer=recorded_clock)]

NAMES = ("STAR-H", "STAR-ML")
DECISIONS, WARM_UP = 300, 20
SEED = 5
"""The model that comes along has learnt decisions of seed 0."""
COSTS = ModeTimes(mode_cost="pooled", kappa=16.0)
"""With this price every kind of mode is the best one now and then."""


def seconds_of(decide: Callable[[Question], object], questions: Sequence[Question]) -> list[float]:
    """Of every decision after the first ones; nothing of one is known at the next."""
    found = []
    for one in questions:
        simulate.cache_clear()
        begun = time.perf_counter()
        decide(one)
        found.append(time.perf_counter() - begun)
    return found[WARM_UP:]


@pytest.fixture(scope="module")
def details() -> dict[str, list[tuple[float, float]]]:
    """Name -> (p50, p99) in seconds, one pair per round."""
    return {}


@pytest.fixture(scope="module")
def comparison(probe: Probe, rounds: int, details: dict[str, list[tuple[float, float]]]) -> Comparison:
    choice, learner = Choice(costs=COSTS), ModeLearner(use_ml_from_start=True)
    many = [one for one in draw_questions(SEED, 13 * DECISIONS) if len(one.workers) == 16][:DECISIONS]
    decide = {
        "STAR-H": lambda one: choice.price_modes(*one),
        "STAR-ML": lambda one: learner.price_modes(ServerQuestion(choice, one)),
    }

    def p50_s(name: str) -> float:
        seconds = seconds_of(decide[name], many)
        details.setdefault(name, []).append((median(seconds), quantiles(seconds, n=100)[98]))
        return details[name][-1][0]

    return bracketed(
        "a decision about modes, 16 workers", {name: partial(p50_s, name) for name in NAMES}, probe, rounds
    )


@pytest.mark.parametrize("name", NAMES)
def test_mode_decisions(name, comparison, benchmark):
    replay_peer(benchmark, comparison, name)


def test_mode_decision_goals(comparison: Comparison, details, report: Report):
    p99_s = median(p99 for _, p99 in details["STAR-ML"])
    verdicts = [*(goal.judge(comparison) for goal in MODEL_GOALS), MODEL_DECISION.judge(p99_s)]
    rows = [[name, *(f"{median(column) * 1e6:.0f}" for column in zip(*details[name], strict=True))] for name in NAMES]
    same = agreement(
        ModeLearner(use_ml_from_start=True).model, [by_heuristic(one, COSTS) for one in draw_questions(SEED, 300)]
    )
    text = table(["decided by", "p50 us", "p99 us"], rows) + f"\n300 decisions that were not learnt: {same}"
    report.judge(comparison.title, verdicts, comparison, text)
