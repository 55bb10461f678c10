"""STAR-ML without servers against its source: section IV-C2 for the modes of equation 3."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.history import Floats
from strategies.protocol import Wake
from strategies.star import Star
from strategies.star.learned import ModeLearner
from strategies.star.measuring import read_took
from strategies.star.ring_modes import WHOLE, RingMode
from strategies.star.ring_question import MODE_FEATURES, RingQuestion, ring_feature_names
from strategies.star.times import ModeTimes, ring_s
from tests.support.examples import examples
from tests.support.harness import HeapRun, make_job
from tests.support.laws import unlawful

EIGHT = [1.0] * 6 + [1.5, 3.0]
COSTS = ModeTimes(mode_cost="pooled", kappa=5.8)
OWN: dict[str, Any] = {"min_samples": 60, "refit_samples": 20, "epochs": 30, "slice_steps": 50, "hold_updates": 5}


def star_ml(learning: dict[str, Any] | None = None, **changes: Any) -> Star:
    """Last times as predictions, from the first on; the job learns its own model."""
    changed: dict[str, Any] = {"predictor": "last_value", "warmup_iters": 0, "phi": 1000.0, "pause": False, **changes}
    own = ModeLearner(topology="allreduce", **{"decision_s": 0.0, **OWN, **(learning or {})})
    return Star(**{"topology": "allreduce", "kappa": 5.8, "decision_s": 0.0, "learning": own, **changed})


def run_of(strategy: Any, seconds: Any = tuple(EIGHT), until_s: float = 60.0) -> HeapRun:
    """A job of 128 samples for each worker."""
    count = len(seconds) if isinstance(seconds, tuple) else 4
    job = make_job(
        num_workers=count, num_servers=0, global_batch_samples=128 * count, max_time_s=until_s, num_samples=10**6
    )
    run = HeapRun(strategy, job, list(seconds) if isinstance(seconds, tuple) else seconds)
    run.run()
    assert unlawful(run) == []
    return run


def waves(period: int = 12) -> Any:
    """Four workers, of whom the last is slow in every other so many of its iterations."""
    done = [0] * 4

    def seconds(worker: int, order: Any) -> float:
        done[worker] += 1
        return 1.0 + 0.01 * worker + (2.0 if worker == 3 and done[3] // period % 2 else 0.0)

    return seconds


def learner(run: HeapRun) -> ModeLearner:
    found = run.core.strategy.parts.schedule.learning  # type: ignore[attr-defined]
    assert isinstance(found, ModeLearner)
    return found


def asked(overhead_s: float = 0.0, phi: float = 1000.0, **changes: Any) -> RingQuestion:
    """The example of equation 3: eight workers, of whom 6 and 7 straggle."""
    times_s = dict(enumerate(EIGHT))
    return RingQuestion(
        **{
            "times_s": times_s,
            "delivered_s": times_s,
            "tagged": (6, 7),
            "waits_s": (0.0, 0.5),
            "batch_samples": 128.0,
            "phi_samples": phi,
            "overhead_s": overhead_s,
            "present": WHOLE,
            "costs": COSTS,
            **changes,
        }
    )


class Fixed:
    """A model that corrects by one of the features, as it happens / as equation 3 says."""

    fitted = True

    def begin(self, *rows: Any, **settings: Any) -> None:
        """No fit is begun: what it says is given."""

    def advance(self, steps: int) -> bool:
        return True

    def predict(self, inputs: Floats) -> Floats:
        found: Floats = inputs[:, MODE_FEATURES.index("log as it happens / estimate")]
        return found


def rows(mode: RingMode, overhead_s: float = 0.0) -> dict[str, float]:
    found = asked().rows([mode], 16, overhead_s)
    return dict(zip(ring_feature_names(16), found.features[0].tolist(), strict=True))


@examples(20)
@given(
    times_s=st.lists(st.floats(0.1, 10.0), min_size=2, max_size=8),
    link_s=st.floats(0.0, 2.0),
    phi=st.floats(0.0, 1e5),
    wait_s=st.floats(0.0, 5.0),
    removed=st.integers(0, 7),
)
def test_the_estimate_of_any_mode_is_equation_3(
    times_s: list[float], link_s: float, phi: float, wait_s: float, removed: int
) -> None:
    """Section IV-C1, equation 3, computed by workers in turn and for all modes at once."""
    order = sorted(range(len(times_s)), key=times_s.__getitem__, reverse=True)
    apart = tuple(order[: min(removed, len(times_s) - 1)])
    delivered_s = [time_s + link_s for time_s in times_s]
    mode = RingMode(apart, wait_s)
    one = asked(
        times_s=dict(enumerate(times_s)), delivered_s=dict(enumerate(delivered_s)), batch_samples=16, phi_samples=phi
    )
    found = one.rows([mode], 8, 0.3)
    late_s = [delivered_s[worker] for worker in apart]
    members_s = [time_s for worker, time_s in enumerate(times_s) if worker not in apart]
    wanted_s = ring_s(members_s, late_s, wait_s if apart else 0.0, 16, phi)
    assert np.exp(found.log_s[0]) == pytest.approx(wanted_s)
    assert np.isfinite(found.features).all()


def test_children_are_counted_as_the_gate_works() -> None:
    """Beyond the paper, by the gate's rule: without 6 and 7 a ring starts every second, and 6 delivers in every
    other. 6.5 gradients an update, of which half of one is an update, 6.5 / 8 global batches, late: a lag of 0.5 /
    6.5 x 0.8125 / 1.8125 = 0.0345 and a price of 1.0069. Equation 3 counts six. Section IV-B: a parent waits for
    its children. 6 delivers at 1.5 s, so 0.7 s of patience cost 0.5 s. Beyond the paper: its parent sends
    parameters after the sum. With 2 s of overhead rings start every 3 s. 6 delivers at 3.5 s and 7 at 5 s, so both
    are late by one update and none is dropped: 7 gradients an update, of which one is late, a lag of 1 / 7 x 0.875
    / 1.875 = 1 / 15. With 0.5 s of patience 6 is in time."""
    found = rows(RingMode((7, 6), 0.0))
    assert found["one update late of the workers"] == 1 / 8
    assert found["log price of the late"] == pytest.approx(np.log(1 + 5.8 * 0.03448**2), abs=1e-5)
    happens_s = (1 + 1000 / (6.5 * 128)) * 1.00690
    assert np.exp(found["log as it happens / estimate"]) == pytest.approx(happens_s / 2.30208, abs=1e-4)
    found = rows(RingMode((6,), 5.0))
    assert found["log as it happens / estimate"] == pytest.approx(np.log(3.0 / 8.0)), "the ring has 7, who takes 3 s"
    both = rows(RingMode((7, 6), 5.0))
    assert both["delivered of the workers"] == 2 / 8
    assert np.exp(both["log as it happens / estimate"]) == pytest.approx(3.0 / 6.0), "7 delivers at 3 s, not at 6"
    at, mode = asked(overhead_s=2.0), RingMode((7, 6), 0.0)
    found = rows(mode, overhead_s=2.0)
    assert (found["delivered of the workers"], found["one update late of the workers"]) == (0.0, 2 / 8)
    assert rows(RingMode((7, 6), 0.5), overhead_s=2.0)["delivered of the workers"] == 1 / 8
    by_model = at.by_model(Fixed(), 16)
    assert by_model[WHOLE] == pytest.approx((1 + 1000 / 1024) * 5.0)
    assert by_model[mode] == pytest.approx((1 + 1000 / (7 * 128)) * (1 + 5.8 / 15**2) * 3.0)
    assert next(iter(by_model)) == mode


def test_the_model_that_comes_along_has_learnt_what_equation_3_leaves_out() -> None:
    """Section V-A: trained on dry runs before the evaluation.

    Where nothing is left out it says about what equation 3 says. With an overhead as long as the ring's time all modes
    cost more than that, and the best what it is worth as the gate works; of the ring of all it has learnt
    that who straggles is slower than the first prediction says."""
    model = ModeLearner(topology="allreduce", use_ml_from_start=True).model
    times_s = dict.fromkeys(range(7), 0.1) | {7: 0.2}
    given: dict[str, Any] = {"times_s": times_s, "delivered_s": times_s, "tagged": (7,), "waits_s": (0.0,)}
    plain, slow = asked(**given), asked(overhead_s=0.1, **given)
    by_rule, by_model = plain.by_rule(), plain.by_model(model, 16)
    assert set(by_rule) == set(by_model)
    assert all(abs(np.log(by_model[mode] / by_rule[mode])) < 0.25 for mode in by_rule)
    happens = slow.by_model(Fixed(), 16)
    learnt = slow.by_model(model, 16)
    assert all(learnt[mode] > 1.4 * by_rule[mode] for mode in by_rule)
    best = RingMode((7,), 0.0)
    assert next(iter(learnt)) == best
    assert learnt[best] == pytest.approx(happens[best], rel=0.1)
    assert learnt[WHOLE] > happens[WHOLE]


@cache
def learnt() -> HeapRun:
    """Its model decides at the end, in a quarter of a second."""
    return run_of(star_ml({"decision_s": 0.25}, redecide_iters=1, decision_s=2.0), waves(), 400.0)


def test_star_h_decides_until_it_has_learnt_enough() -> None:
    """Section IV-C2: first the heuristic, whose data train the regressor, then the regressor, which is refined."""
    few = run_of(star_ml({"min_samples": 5000}, redecide_iters=2))
    assert few.core.strategy.log_state()["decided_by"] == "STAR-H"
    plain = run_of(Star(**{**SAME, "predictor": "last_value"}))
    assert [(t, order.excluded) for t, order, _ in few.applied] == [
        (t, order.excluded) for t, order, _ in plain.applied
    ]
    run = learnt()
    assert learner(run).decides
    assert learner(run).regret_frac is not None
    assert str(run.core.strategy.log_state()["decision"]).endswith(" (by the model)")
    assert learner(run)._decisions > 10


SAME: dict[str, Any] = {
    "topology": "allreduce",
    "warmup_iters": 0,
    "phi": 1000.0,
    "pause": False,
    "decision_s": 0.0,
    "redecide_iters": 2,
}


def test_what_a_mode_turned_out_to_be_worth_is_learnt() -> None:
    """Section IV-C2: what modes took refines the model. A ring of six a second, and 6 in every other: 6.5 gradients."""
    run = run_of(star_ml({"min_samples": 5000}, redecide_iters=20, waits_s=[0.0]), until_s=90.0)
    measured = [one for one in learner(run)._buffer._decisions if one.measured]
    assert len(measured) >= 3
    worth_s = (1 + 1000 / (6.5 * 128)) * 1.00690
    for one in measured:
        assert float(np.exp(one.log_s + one.targets)[0]) == pytest.approx(worth_s, rel=0.01)
        assert one.weights == pytest.approx([1.02])
    took = read_took(str(run.core.strategy.log_state()["took"]))
    assert took is not None
    assert took.mode == RingMode((7, 6), 0.0)
    assert took.pace.update_s == pytest.approx(1.0)
    assert took.pace.samples / 128 == pytest.approx(6.5, rel=0.01)
    assert list(took.times_s) == EIGHT


def test_a_mode_is_measured_once_its_ring_is_there() -> None:
    """Beyond the paper: worker 3 comes back into the ring, and while it computes as a child rounds still take 1 s."""
    done = [0] * 4

    def seconds(worker: int, order: Any) -> float:
        done[worker] += 1
        return 1.0 if worker < 3 else 3.0 if done[3] < 6 else 1.3

    run = run_of(star_ml({"min_samples": 5000}, phi=1e6, redecide_iters=6, waits_s=[0.0]), seconds, 90.0)
    lines = {str(line.state["took"]) for line in run.lines if line.state}
    tooks = [took for line in lines if (took := read_took(line)) is not None and took.mode == WHOLE]
    assert tooks
    assert [took.pace.update_s for took in tooks] == pytest.approx([1.3] * len(tooks), rel=1e-5)


def test_its_decisions_take_a_time_of_their_own() -> None:
    """Section V-C: 4.9 to 13 times less. Once it decides, a new mode is there that much after its decision."""
    schedule: Any = learnt().core.strategy.parts.schedule  # type: ignore[attr-defined]
    assert schedule._takes_s((0, 1, 2, 3)) == 0.25
    assert Wake not in run_of(star_ml(waits_s=[0.0])).core.strategy.needs
    assert Wake in star_ml({"decision_s": 0.25}, waits_s=[0.0], pause=True).needs
    few = run_of(star_ml({"decision_s": 0.25, "min_samples": 5000}, decision_s=2.0), waves())
    schedule = few.core.strategy.parts.schedule  # type: ignore[attr-defined]
    assert schedule._takes_s((0, 1, 2, 3)) == 2.0
