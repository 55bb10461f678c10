"""STAR-ML's learner: what it learns from, when it decides, and what it does between decisions."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from strategies.protocol import Grad
from strategies.star.choice import Choice
from strategies.star.estimates import first_updates
from strategies.star.features import feature_names, rows_of
from strategies.star.learned import ModeLearner
from strategies.star.measuring import Held
from strategies.star.modal import ASGD, SSGD, Mode
from strategies.star.samples import Costed, SampleBuffer, regret_of
from strategies.star.server_question import Question, ServerQuestion
from strategies.star.times import ModeTimes
from tests.support.grads import make_grad

CHOICE, COSTS = Choice(), ModeTimes()
FOUR = (1.0, 1.0, 1.0, 4.0)
GROUPS = ((0, 1, 2), (3,))


def asked(times_s: tuple[float, ...] = FOUR, phi: float = 1000.0, present: Mode = SSGD) -> Question:
    return Question(tuple(range(len(times_s))), times_s, GROUPS, 128.0, phi, present)


def questions(count: int, seed: int = 0) -> list[Question]:
    chance = np.random.default_rng(seed)
    return [asked((*chance.uniform(1.0, 1.5, 3).tolist(), 4.0), chance.uniform(30.0, 5000.0)) for _ in range(count)]


def learner(**changes: Any) -> ModeLearner:
    return ModeLearner(**{"min_samples": 40, "refit_samples": 20, "epochs": 40, "max_regret_frac": 0.2, **changes})


def taught(count: int = 40, **changes: Any) -> ModeLearner:
    """It has seen so many decisions, and has had time to learn from them."""
    own = learner(**changes)
    for one in questions(count):
        own.priced(ServerQuestion(CHOICE, one))
        for _ in range(100):
            own.advance()
    return own


@pytest.mark.parametrize(
    "costs",
    [ModeTimes(), ModeTimes(mode_cost="literal"), ModeTimes(kappa=0.5), ModeTimes(mode_cost="pooled", kappa=3.0)],
)
def test_closed_forms_need_no_correction(costs: ModeTimes) -> None:
    """SSGD, ASGD and dynamic x-order; the others are off by the simulation."""
    question = asked((1.0, 1.2, 1.9, 4.3))
    at = ServerQuestion(Choice(costs=costs), question)
    one = at.costed(at.by_rule(), 16, measured=False)
    ssgd, dynamic = 3, 4
    assert one.targets[[0, ssgd, dynamic]] == pytest.approx(np.zeros(3), abs=1e-9)
    assert 0.0 < np.abs(one.targets[1:3]).max() < 0.5


def test_features_do_not_depend_on_the_unit_or_on_the_workers_order() -> None:
    one = rows_of((1.0, 1.2, 1.9, 4.3), 128, 500, COSTS, 16, [1, 2, 3, 4], [[[0, 1], [2], [3]]])
    other = rows_of((8.6, 2.0, 3.8, 2.4), 128, 500, COSTS, 16, [1, 2, 3, 4], [[[1, 3], [2], [0]]])
    assert other.features == pytest.approx(one.features)
    assert other.log_s == pytest.approx(one.log_s + np.log(2.0))
    assert one.features.shape == (5, len(feature_names(16)))
    assert len(set(feature_names(16))) == len(feature_names(16))
    assert np.isfinite(one.features).all()


def test_the_first_updates_are_those_of_the_definition() -> None:
    """Updates of three of 100, 120, 150 and 410 ticks: at 410 the slowest is there, and the next update is at 420."""
    found = first_updates(np.array([100, 120, 150, 410]), np.array([1, 3, 4]))
    assert found.ends[:5, 0].tolist() == [100, 120, 150, 200, 240]
    assert found.ends[:4, 1].tolist() == [150, 300, 420, 540]
    assert found.ends[:3, 2].tolist() == [410, 820, 1230]
    assert found.sqr_staleness[2] == 0.0
    together = first_updates(np.full(4, 100), np.array([2]))
    assert together.ends[:4, 0].tolist() == [100, 100, 200, 200]
    assert together.sqr_staleness.tolist() == [1.0]
    assert 0 < found.sqr_staleness[1] < found.sqr_staleness[0]


def test_the_newest_rows_are_kept_and_the_newest_fifth_is_held_out() -> None:
    buffer = SampleBuffer(30)
    for number in range(9):
        rows = np.full((5, 2), float(number))
        buffer.add(Costed(rows, rows[:, 0], rows[:, 0], np.full(5, 0.25), measured=number == 8))
    assert buffer.rows == 30
    learnt, held_out = buffer.split()
    assert set(learnt.targets) == {3.0, 4.0, 5.0, 6.0, 7.0}
    assert set(learnt.weights) == {0.25}
    assert held_out == [], "the newest is a measurement, which has nothing to compare with"


def test_regret_is_of_the_choice_and_not_of_the_cost() -> None:
    one = Costed(np.zeros((3, 1)), np.log([1.0, 1.0, 2.0]), np.log([2.0, 3.0, 1.5]), np.ones(3))
    assert regret_of(one, np.log([1.0, 1.0, 2.0])) == 0.0
    assert regret_of(one, np.log([5.0, 1.0, 5.0])) == pytest.approx(0.5), "3 s instead of 2"
    assert regret_of(one, np.log([9.0, 7.0, 9.0])) == pytest.approx(0.5), "only the order counts"


def grads(version: int, *workers: int, samples: int = 128) -> list[Grad]:
    return [make_grad(worker, samples, version=version) for worker in workers]


@pytest.mark.parametrize(
    ("mode_cost", "factor"), [("priced", 1 + 0.14 * 4), ("literal", 1.0), ("pooled", 1 + 0.14 * 0.6**2)]
)
def test_what_a_mode_took_is_measured(mode_cost: str, factor: float) -> None:
    """Updates of three every second, of gradients two updates old, 1.5 global batches: a lag of 1.5 / 2.5."""
    held, summed, costs = Held(10.0, 7, 512.0), Held(10.0, 7, 512.0), ModeTimes(mode_cost=mode_cost)
    for one in (held, summed):
        one.applied(10.0, 0, grads(0, 3))
    for number in range(20):
        each = grads(8 + number - 2, 0, 1, 2)
        held.applied(11.0 + number, 0, each)
        both = msgspec.structs.replace(each[0], samples=256, members=(0, 1))
        summed.applied(11.0 + number, 0, [both, each[2]])
    assert summed.unit_s(1000.0, costs) == pytest.approx(held.unit_s(1000.0, costs)), "a sum is as its members"
    assert held.updates == 20, "the first completed the mode before"
    assert held.unit_s(1000.0, costs) == pytest.approx((1 + 1000 / 384) * factor)


def test_groups_progress_side_by_side() -> None:
    """Three workers every second, fresh, and one every four, four updates late: equation 2 with measured prices."""
    held, version = Held(0.0, 0, 512.0), 0
    for second in range(1, 41):
        if second % 4 == 0:
            held.applied(second, 1, grads(version - 4, 3))
            version += 1
        held.applied(second, 0, grads(version, 0, 1, 2))
        version += 1
    fast, slow = 1 + 1000 / 384, (1 + 1000 / 128) * (1 + 0.14 * 16) * 4
    assert held.unit_s(1000.0, COSTS) == pytest.approx(1 / (1 / fast + 1 / slow))


@pytest.mark.parametrize("regressor", ["mlp", "ridge"])
def test_it_decides_once_its_choices_are_good_enough(regressor: str) -> None:
    own = learner(regressor=regressor)
    by = []
    for one in questions(40):
        by.append(own.can_decide(4))
        own.priced(ServerQuestion(CHOICE, one))
        for _ in range(100):
            own.advance()
    assert not any(by[:8]), "40 rows are eight decisions"
    assert by[-1]
    assert own.regret_frac is not None
    assert own.regret_frac <= 0.2


def test_what_it_says_is_what_the_model_says() -> None:
    own, one = taught(), asked((1.0, 1.1, 1.3, 4.0))
    found = own.priced(ServerQuestion(CHOICE, one))
    assert list(found.values()) == sorted(found.values())
    assert set(found) == set(CHOICE.priced(*one))
    rows = rows_of(one.times_s, 128, 1000, COSTS, 16, [3], [[[0, 1, 2], [3]]])
    static_s, dynamic_s = np.exp(rows.log_s + own.model.predict(rows.features))
    assert found[Mode(x=3)] == pytest.approx(static_s)
    assert found[Mode(groups=GROUPS)] == pytest.approx(dynamic_s)
    assert found[ASGD] == pytest.approx(CHOICE.priced(*one)[ASGD], rel=0.3)


def test_every_tenth_decision_is_costed_by_star_h_afterwards() -> None:
    own = taught(check_every=10)
    while own._waiting:
        own.advance()
    for _ in range(100):
        own.advance()
    own._decisions, rows = 0, own._buffer.rows
    for number, one in enumerate(questions(10, seed=1), start=1):
        own.priced(ServerQuestion(CHOICE, one))
        assert len(own._waiting) == (number == 10)
    for left in range(4, -1, -1):
        own.advance()
        assert own._buffer.rows == rows + 5 * (left == 0), "a mode with every arrival"
    exact = CHOICE.priced(*questions(10, seed=1)[-1])
    learnt = own._buffer._decisions[-1]
    assert np.sort(np.exp(learnt.log_s + learnt.targets)) == pytest.approx(list(exact.values()), rel=0.01)
