"""Zeno++ as its paper (Xie, Koyejo, Gupta, ICML 2020) and its code have it, with numbers worked by hand."""

from __future__ import annotations

from math import sqrt
from typing import Any

import pytest

from strategies.protocol import Compute, Drop, Score
from strategies.zeno_pp import ZenoPP
from tests.support.harness import HeapRun, Rig, make_job
from tests.support.laws import unaveraged, unlawful
from tests.support.scores import random_scores
from tests.support.zeno import badly_accepted

JOB = {"num_workers": 2, "global_batch_samples": 4}
"""Two samples each: a gradient of mean g is the sum 2 g."""


def judged(g: tuple[float, float], r: tuple[float, float], **fields: Any) -> Rig:
    """One gradient of mean g has been compared with a reference of mean r, at a learning rate of 0.1."""
    strategy = ZenoPP(**{"validation_samples": 5, **fields})
    rig = Rig(strategy, make_job(**JOB, lr=0.1)).start()
    rig.arrive(0)
    rig.reference_ready()
    tell(rig, 0, g, r)
    return rig


def tell(rig: Rig, grad: int, g: tuple[float, float], r: tuple[float, float]) -> None:
    sqr_g, sqr_r = sum(x * x for x in g), sum(x * x for x in r)
    cosine = sum(x * y for x, y in zip(g, r, strict=True)) / sqrt(sqr_g * sqr_r) if sqr_g * sqr_r else 0.0
    held_out = rig.job.validation_samples
    rig.score_parts(grad, rig.references[-1][0], cosine, 4 * sqr_g, held_out**2 * sqr_r)


def score(rig: Rig) -> float:
    value = rig.core.strategy.log_state()["score"]
    assert isinstance(value, float)
    return value


def test_the_score_is_the_estimated_descent_less_the_penalty() -> None:
    """Definition of the approximated stochastic descendant score. score = gamma c <r, g> - rho |c g|^2 with c = |r| /
    |g|: 0.1 x 0.447214 x 11 - 0.001 x 5; c g is applied."""
    rig = judged((3.0, 4.0), (1.0, 2.0))
    assert score(rig) == pytest.approx(0.486935, abs=1e-6)
    ((_, order, _),) = rig.applied
    assert order.weights == (pytest.approx(0.447214 / 2, abs=1e-6),)
    assert order.lr == pytest.approx(0.1 * 2 / 4)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"rho_on": "raw"}, 0.466935),  # as the published code: 0.1 x 4.919350 - 0.001 x 25, before it is rescaled
        ({"rescale": False}, 1.075),  # c = 1: 0.1 x 11 - 0.001 x 25
        ({"gamma": 0.2}, 2 * 0.491935 - 0.005),  # it may differ from the rate
    ],
    ids=str,
)
def test_what_the_score_depends_on(fields: dict[str, Any], expected: float) -> None:
    """Definition of the score."""
    assert score(judged((3.0, 4.0), (1.0, 2.0), **fields)) == pytest.approx(expected, abs=1e-6)


def test_a_gradient_without_estimated_descent_is_dropped() -> None:
    """Abstract: candidate gradients that fail the test are discarded. (2, -1) is orthogonal to (1, 2), so the score is
    the penalty alone."""
    rig = judged((2.0, -1.0), (1.0, 2.0))
    assert score(rig) == pytest.approx(-0.005, abs=1e-12)
    assert rig.commands[-2:] == [Drop(grads=(0,), requeue=False), Compute(worker=0, num_samples=2)]
    assert rig.applied == []


@pytest.mark.parametrize(("fields", "updates"), [({"eps": 0.04}, 0), ({"eps": 0.06}, 1), ({"rho": 0.0}, 1)], ids=str)
def test_eps_admits_gradients(fields: dict[str, Any], updates: int) -> None:
    """Definition of the score. -0.005 + 0.1 eps: accepted from eps = 0.05 on; 0 is enough for a score."""
    assert len(judged((2.0, -1.0), (1.0, 2.0), **fields).applied) == updates


def test_acceptance_depends_on_the_angle_alone() -> None:
    """Definition of the score, for eps = 0. Accepted if and only if cos(r, g) >= rho / gamma = 0.01."""
    for length in (1e-6, 1.0, 1e6):
        for cosine, accepted in ((0.0101, 1), (0.0099, 0)):
            g = (length * cosine, length * sqrt(1 - cosine**2))
            assert len(judged(g, (3.0, 0.0)).applied) == accepted


@pytest.mark.parametrize(("g", "r"), [((0.0, 0.0), (1.0, 2.0)), ((3.0, 4.0), (0.0, 0.0))])
def test_a_gradient_without_direction_is_rejected_whatever_eps_is(
    g: tuple[float, float], r: tuple[float, float]
) -> None:
    """Definition of the score: c is undefined where a norm is 0."""
    for fields in ({}, {"eps": 9.0}, {"eps": None}, {"eps": None, "rescale": False}):
        rig = judged(g, r, **fields)
        assert rig.applied == []
        assert rig.dropped == [0]


def test_rejected_samples_return_to_the_queue_unless_too_many_in_a_row_are() -> None:
    """Departure: a job whose samples must all be used computes them again. Departure: a gradient that passes shows
    that the job is not stuck, so the third rejection of all returns its samples to the queue."""
    assert judged((2.0, -1.0), (1.0, 2.0), discard=False).commands[-2] == Drop(grads=(0,), requeue=True)
    rig = judged((2.0, -1.0), (1.0, 2.0), discard=False, give_up_after=3, refresh_every=100)
    for grad, g in ((2, (2.0, -1.0)), (3, (3.0, 4.0)), (4, (2.0, -1.0))):
        rig.arrive(0)
        tell(rig, grad, g, (1.0, 2.0))
    assert len(rig.applied) == 1
    assert [command.requeue for command in rig.commands if isinstance(command, Drop)] == [True, True, True]


def test_the_reference_is_renewed_by_incoming_gradients_accepted_or_not() -> None:
    """Published code: the reference is recomputed at every zeno_delay-th incoming gradient, accepted or not."""
    strategy = ZenoPP(refresh_every=4, validation_samples=5)
    run = HeapRun(strategy, make_job(max_time_s=30.0, global_batch_samples=8), [1, 1, 1, 4])
    run.cosine = random_scores(0, accepted=0.5)
    run.run()
    asked = [command.refresh for command in run.commands if isinstance(command, Score)]
    assert len(asked) > 20
    assert asked == [number % 4 == 0 for number in range(len(asked))]
    state = strategy.log_state()
    assert 0.3 < float(state["acceptance_ratio"]) < 0.7
    assert unlawful(run) == unaveraged(run) == badly_accepted([*map(plain, run.lines)], strategy, 1.0) == []


def plain(line: Any) -> dict[str, Any]:
    """As a record has it."""
    import msgspec

    return {"kind": "event", "event": msgspec.to_builtins(line.event), "commands": msgspec.to_builtins(line.commands)}


def test_an_applied_gradient_with_a_negative_score_is_found() -> None:
    """Negative control of the checker that records are held to."""
    rig = judged((2.0, -1.0), (1.0, 2.0), eps=0.06)
    lines = [plain(line) for line in rig.lines]
    assert badly_accepted(lines, ZenoPP(eps=0.06), 0.1) == []
    assert len(badly_accepted(lines, ZenoPP(eps=0.0), 0.1)) == 1
    unscored = [line for line in lines if line["event"]["type"] != "Scored"]
    applies = {"event": {"type": "Woke"}, "commands": [{"type": "Apply", "grads": [0]}]}
    assert len(badly_accepted([*unscored, {"kind": "event", **applies}], ZenoPP(), 0.1)) == 1
