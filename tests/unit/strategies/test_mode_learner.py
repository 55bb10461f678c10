"""STAR-ML's learner, of modes and of rings: what it learns from, when it decides, at which price of staleness."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.config.instantiate import instantiate
from runtime.config.parse import parse
from strategies.protocol import Grad, Wake
from strategies.star import Star
from strategies.star.choice import Choice
from strategies.star.deciding import Spacing
from strategies.star.estimates import first_updates
from strategies.star.features import rows_of
from strategies.star.learned import ModeLearner
from strategies.star.measuring import Held, HeldPace, RingTook, read_took
from strategies.star.modal import ASGD, SSGD, Mode
from strategies.star.ring_modes import WHOLE, RingMode, RingOverhead
from strategies.star.samples import Costed, SampleBuffer, regret_of
from strategies.star.server_question import Question, ServerQuestion
from strategies.star.times import FITTED, UNKNOWN, ModeTimes, kappa_for
from tests.support.examples import examples
from tests.support.faults import Crash
from tests.support.grads import make_grad
from tests.support.harness import HeapRun, make_job
from tests.support.laws import unlawful
from tests.unit.strategies.whole_jobs import composer

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
        own.price_modes(ServerQuestion(CHOICE, one))
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
    one = at.cost_sample(at.by_rule(), 16, measured=False)
    ssgd, dynamic = 3, 4
    assert one.targets[[0, ssgd, dynamic]] == pytest.approx(np.zeros(3), abs=1e-9)
    assert 0.0 < np.abs(one.targets[1:3]).max() < 0.5


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
        one.count_update(10.0, 0, grads(0, 3))
    for number in range(20):
        each = grads(8 + number - 2, 0, 1, 2)
        held.count_update(11.0 + number, 0, each)
        both = msgspec.structs.replace(each[0], samples=256, members=(0, 1))
        summed.count_update(11.0 + number, 0, [both, each[2]])
    assert summed.unit_s(1000.0, costs) == pytest.approx(held.unit_s(1000.0, costs)), "a sum is as its members"
    assert held.updates == 20, "the first completed the mode before"
    assert held.unit_s(1000.0, costs) == pytest.approx((1 + 1000 / 384) * factor)


def test_groups_progress_side_by_side() -> None:
    """Three workers every second, fresh, and one every four, four updates late: equation 2 with measured prices."""
    held, version = Held(0.0, 0, 512.0), 0
    for second in range(1, 41):
        if second % 4 == 0:
            held.count_update(second, 1, grads(version - 4, 3))
            version += 1
        held.count_update(second, 0, grads(version, 0, 1, 2))
        version += 1
    fast, slow = 1 + 1000 / 384, (1 + 1000 / 128) * (1 + 0.14 * 16) * 4
    assert held.unit_s(1000.0, COSTS) == pytest.approx(1 / (1 / fast + 1 / slow))


@pytest.mark.parametrize("regressor", ["mlp", "ridge"])
def test_it_decides_once_its_choices_are_good_enough(regressor: str) -> None:
    own = learner(regressor=regressor)
    by = []
    for one in questions(40):
        by.append(own.can_decide(4))
        own.price_modes(ServerQuestion(CHOICE, one))
        for _ in range(100):
            own.advance()
    assert not any(by[:8]), "40 rows are eight decisions"
    assert by[-1]
    assert own.regret_frac is not None
    assert own.regret_frac <= 0.2


def test_what_it_says_is_what_the_model_says() -> None:
    own, one = taught(), asked((1.0, 1.1, 1.3, 4.0))
    found = own.price_modes(ServerQuestion(CHOICE, one))
    assert list(found.values()) == sorted(found.values())
    assert set(found) == set(CHOICE.price_modes(*one))
    rows = rows_of(one.times_s, 128, 1000, COSTS, 16, [3], [[[0, 1, 2], [3]]])
    static_s, dynamic_s = np.exp(rows.log_s + own.model.predict(rows.features))
    assert found[Mode(x=3)] == pytest.approx(static_s)
    assert found[Mode(groups=GROUPS)] == pytest.approx(dynamic_s)
    assert found[ASGD] == pytest.approx(CHOICE.price_modes(*one)[ASGD], rel=0.3)


def test_every_tenth_decision_is_costed_by_star_h_afterwards() -> None:
    own = taught(check_every=10)
    while own._waiting:
        own.advance()
    for _ in range(100):
        own.advance()
    own._decisions, rows = 0, own._buffer.rows
    for number, one in enumerate(questions(10, seed=1), start=1):
        own.price_modes(ServerQuestion(CHOICE, one))
        assert len(own._waiting) == (number == 10)
    for left in range(4, -1, -1):
        own.advance()
        assert own._buffer.rows == rows + 5 * (left == 0), "a mode with every arrival"
    exact = CHOICE.price_modes(*questions(10, seed=1)[-1])
    learnt = own._buffer._decisions[-1]
    assert np.sort(np.exp(learnt.log_s + learnt.targets)) == pytest.approx(list(exact.values()), rel=0.01)


def test_overhead_is_what_members_did_not_compute_without_pauses() -> None:
    own = RingOverhead()
    own.arrived(3.0, 1.0)
    assert own.seconds == 0.0, "no update, so nothing to count from"
    own.note_update(10.0)
    for arrived_s, computed_s in ((11.5, 1.2), (11.7, 1.3), (12.0, 1.4)):
        own.arrived(arrived_s, computed_s)
    assert own.seconds == pytest.approx(0.4)
    own = RingOverhead()
    own.note_update(1.0)
    own.arrived(2.25, 1.0)
    own.interrupt()
    own.arrived(9.0, 1.0)
    own.arrived(9.0, 1.0)
    own.note_update(9.0)
    own.arrived(10.25, 1.0)
    assert own.seconds == pytest.approx(0.25)


positive = st.floats(1e-3, 1e3)


@examples(20)
@given(
    apart=st.lists(st.integers(0, 30), max_size=3, unique=True),
    wait_s=st.sampled_from([0.0, 0.03, 0.21, 1e-5]),
    numbers=st.tuples(positive, positive, positive, positive, positive),
    times_s=st.lists(positive, min_size=4, max_size=4),
    updates=st.integers(1, 10**6),
)
def test_a_line_of_the_record_says_what_it_was_made_of(
    apart: list[int], wait_s: float, numbers: tuple[float, ...], times_s: list[float], updates: int
) -> None:
    mode = RingMode(tuple(apart), wait_s) if apart else WHOLE
    *pace, overhead_s = numbers
    one = RingTook(mode, HeldPace(*pace), (0, 2, 5, 7), tuple(times_s), tuple(times_s), updates, overhead_s)
    found = read_took(str(one))
    assert found is not None
    assert (found.mode, found.workers, found.updates) == (mode, (0, 2, 5, 7), updates)
    assert [*found.pace, found.overhead_s, *found.times_s] == pytest.approx([*pace, overhead_s, *times_s], rel=1e-5)


def test_equal_updates_cost_what_equation_3_says() -> None:
    """Four of 128 samples, fresh, every 2 s: (1 + 1000 / 512) x 2; a lag of a half with kappa 4 doubles it."""
    costs = ModeTimes(mode_cost="pooled", kappa=4.0)
    assert HeldPace(2.0, 512.0, 0.0, 0.0).unit_s(1000.0, costs) == pytest.approx(5.90625)
    assert HeldPace(2.0, 512.0, 0.0, 0.5).unit_s(1000.0, costs) == pytest.approx(11.8125)


@pytest.mark.parametrize(
    "learning", [None, ModeLearner(topology="allreduce", min_samples=10, refit_samples=5, epochs=2)]
)
def test_decisions_continue_when_all_who_were_left_in_the_ring_are_gone(learning: Any) -> None:
    """Workers 1 and 2 are children of worker 0, which leaves for good: the next decision is about those two."""
    strategy = Star(
        topology="allreduce",
        phi=1000.0,
        decision_s=0.0,
        warmup_iters=0,
        predictor="last_value",
        redecide_iters=1,
        kappa=16.0,
        learning=learning,
    )
    job = make_job(num_workers=3, num_servers=0, global_batch_samples=384, num_samples=10**6, max_time_s=80.0)
    run = HeapRun(strategy, job, [1.0, 3.0, 5.0], [Crash(20.0, 0, None)])
    run.run()
    assert unlawful(run) == []
    assert {order.excluded for t, order, _ in run.applied if 15 < t < 20} == {(1, 2)}
    assert max(t for t, _, _ in run.applied) > 60


OFTEN: dict[str, Any] = {
    **{"predictor": "last_value", "warmup_iters": 0, "phi": 1000.0},
    **{"min_gain_frac": 0.99, "redecide_iters": 1},
}
"""Settings of STAR by which it decides as often as it may, and changes next to nothing."""


def gaps(spacing: Spacing, count: int, takes_s: float = 0.5) -> list[float]:
    """Times between decisions that are made as soon as they may be, by a clock of 1 / 64 s; all change nothing."""
    found, t = [], 0.0
    while len(found) < count:
        if not spacing.waits(t):
            found.append(t)
            spacing.note_decision(t, takes_s, changed=False)
        t += 1 / 64
    return [after - before for before, after in pairwise(found)]


def test_waits_double_until_pauses_take_the_wanted_part() -> None:
    """Half a second each, at most a sixteenth of the time: 1, 2, 4 and then 8 s."""
    assert gaps(Spacing(1 / 16), 7) == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    # Those of STAR-H before a model decides, say: its first wait is twice its own length
    spacing = Spacing(1 / 16)
    for t in range(20):
        spacing.note_decision(float(t), 0.0, changed=False)
        assert not spacing.waits(float(t))
    assert gaps(spacing, 4) == [1.0, 2.0, 4.0]
    spacing.note_decision(100.0, 0.0, changed=True)
    assert gaps(spacing, 3) == [1.0, 2.0]


def noisy(seed: int, max_pause_frac: float, topology: str = "ps", faults: Any = ()) -> HeapRun:
    """Three workers whose times vary by half, so that tags and times change all the time; candidates all cost alike."""
    rng = random.Random(seed)
    strategy = Star(kappa=100.0, decision_s=0.5, topology=topology, max_pause_frac=max_pause_frac, **OFTEN)
    servers = {"num_servers": 0} if topology == "allreduce" else {}
    job = make_job(num_workers=3, global_batch_samples=6, num_samples=10**6, max_time_s=200.0, **servers)
    run = HeapRun(strategy, job, lambda worker, order: rng.uniform(1.0, 1.5) * (2 if worker == 2 else 1), list(faults))
    run.run()
    assert unlawful(run) == []
    return run


def pauses(run: HeapRun) -> list[float]:
    """The seconds at which pauses end."""
    return [command.at_s for command in run.commands if isinstance(command, Wake)]


@pytest.mark.few(1)
@pytest.mark.parametrize("topology", ["ps", "allreduce"])
def test_a_noisy_job_is_not_stopped_again_and_again(topology: str) -> None:
    """A hundred decisions of half a second, or some five while waits double and one in ten seconds then."""
    always, spaced = (pauses(noisy(0, frac, topology)) for frac in (1.0, 0.05))
    assert len(always) >= 60
    assert 15 <= len(spaced) <= 25
    assert min(after - before for before, after in pairwise(spaced[6:])) >= 10.0


def test_a_lost_worker_ends_all_waiting() -> None:
    """It crashes at 105 s, and its return at 106 changes what the best mode is: decided within two iterations each."""
    found = pauses(noisy(0, 0.01, faults=[Crash(105.0, 1, 1.0)]))
    calm = pauses(noisy(0, 0.01))
    assert not [t for t in calm if 105 < t < 115]
    assert [t for t in found if 105 < t < 115]


@pytest.mark.parametrize("workload", FITTED)
def test_a_fitted_rate_has_its_own_price_and_a_higher_rate_none_that_is_lower(workload: str) -> None:
    """Between two fitted rates the higher one's counts; above all, never less than for an unknown workload."""
    rates = FITTED[workload]
    assert [kappa_for("pooled", workload, lr) for lr, _ in rates] == [kappa for _, kappa in rates]
    asked = sorted(lr * factor for lr, _ in rates for factor in (0.5, 1.0, 1.01))
    prices = [kappa_for("pooled", workload, lr) for lr in asked]
    assert prices == sorted(prices)
    assert prices[-1] >= UNKNOWN


def test_unknown_workloads_and_other_prices() -> None:
    assert kappa_for("pooled", "mine", 0.001) == UNKNOWN
    assert kappa_for("priced", "digits", 0.03) == 0.14


@pytest.mark.few(2)
@pytest.mark.parametrize("strategy", ["star_h", "star_ml"])
@pytest.mark.parametrize(
    ("words", "kappa"),
    [
        (["workload=digits"], 1.3),
        (["workload=digits", "workload.optimizer.lr=0.2"], 21.0),
        (["workload=digits", "workload.optimizer.lr=0.3"], 21.0),
        (["workload=digits", "strategy.kappa=5"], 5.0),
        (["workload=ledger"], UNKNOWN),
    ],
)
def test_a_job_is_priced_by_its_workload_and_rate(strategy: str, words: list[str], kappa: float) -> None:
    """Through the command line: the job's own learning rate reaches the strategy."""
    config = parse(composer().raw([f"strategy={strategy}", "runtime=virtual", *words]))
    assert instantiate(config.strategy).parts.schedule.choice.costs.kappa == kappa
