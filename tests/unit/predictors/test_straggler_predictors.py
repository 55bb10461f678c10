"""Predictors of stragglers: worked numbers, what they know when, and what all of them owe to whoever asks."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictors.backtest import backtest
from predictors.fixed_duration import SlowFor
from predictors.nvrx import Nvrx
from predictors.oracle import Oracle, PlannedWindow
from predictors.registry import STRAGGLER_PREDICTORS, straggler_predictor
from predictors.stragglers import Observation, StragglerPredictor

every_predictor = pytest.mark.parametrize("name", STRAGGLER_PREDICTORS)
COMPARING = tuple(name for name in STRAGGLER_PREDICTORS if name not in ("greyhound", "by_chance", "oracle"))
"""Predictors that compare workers; one sees changes only, one nothing."""
every_comparing_one = pytest.mark.parametrize("name", COMPARING)
QUICK = {"fixed_duration": {"duration_s": 2.0}, "twice_median": {"window_iters": 3}, "nvrx": {"window_iters": 3}}
QUICK |= {name: {"window_iters": 3} for name in ("megatron", "robust_z")}


def quick(name: str) -> StragglerPredictor:
    """One that makes up its mind within a few iterations of a second."""
    return straggler_predictor(name, QUICK.get(name))


def received(predictor: StragglerPredictor, *rounds: Sequence[float], since: int = 0) -> StragglerPredictor:
    """Round after round, a second apart, of every worker's time."""
    for number, times in enumerate(rounds, start=since):
        for worker, iter_s in enumerate(times):
            predictor.update(Observation(t=float(number), worker=worker, iteration=number, iter_s=iter_s))
    return predictor


def test_a_fixed_duration_is_waited_for_and_one_quick_iteration_ends_it() -> None:
    """Slow from 1 to 4 s: too short. Slow from 5 s on: not after 4.9 s, but after 5.2; over at 12 s."""
    series = [(0, 0.05), (1, 0.35), (2.5, 0.4), (4, 0.1), (5, 0.3), (7, 0.45), (9.9, 0.25), (10.2, 0.5), (12, 0.1)]
    predictor, tagged = straggler_predictor("fixed_duration"), []
    for t, frac in series:
        predictor.update(Observation(t=t, worker=0, iteration=0, iter_s=1.0))
        predictor.update(Observation(t=t, worker=3, iteration=0, iter_s=1.0 + frac))
        tagged += [t] if predictor.tags(t) == {3} else []
    assert tagged == [10.2]


def test_simple_rules_by_worked_numbers() -> None:
    """tag(t+1) = d(t) > 0.2; 20 % is not more than 20 %, not even by the rounding of a quotient."""
    tags = [received(straggler_predictor("last_value"), [1.0, 1.2, slow]).tags(0.0) for slow in (1.0, 1.2, 1.21)]
    assert tags == [set(), set(), {2}]
    exact = [3.0 * k for k in range(1, 200)]
    assert not any(received(straggler_predictor("last_value"), [each, each * 1.2]).tags(0.0) for each in exact)
    # Speeds 100, 100, 50, 50 with a = 0.2 are predicted as 100, 100, 90, 82: 0, 0, 11 and 22 % longer than at 100
    predictor, tags = straggler_predictor("ema"), []
    for speed in (100, 100, 50, 50):
        tags.append(received(predictor, [1 / 100, 1 / speed]).tags(0.0))
    assert tags == [set(), set(), set(), {1}]
    tags = [received(straggler_predictor("twice_median"), [1.0, 1.0, 1.0, slow]).tags(0.0) for slow in (2.0, 2.01)]
    assert tags == [set(), {3}]
    assert received(straggler_predictor("twice_median"), [1.0, 1000.0]).tags(0.0) == set(), "1000 < 2 * 500.5"
    assert received(straggler_predictor("twice_median", {"factor": 1.5}), [1.0, 4.0]).tags(0.0) == {1}


def test_nvrx_scores_against_the_fastest_and_against_oneself() -> None:
    predictor = Nvrx(window_iters=1)
    received(predictor, [1.0, 2.0, 4.0])
    assert predictor.relative().tolist() == [1.0, 0.5, 0.25]
    tags = [received(Nvrx(window_iters=1), [1.0, 1.0, slow]).tags(0.0) for slow in (1.42, 1.43)]
    assert tags == [set(), {2}], "1 / 0.7 = 1.4286"
    # All get slow at once: nobody is slower than the others
    rounds = [[1.0, 2.0]] * 3 + [[4.0, 4.0]] * 3
    predictor = received(Nvrx(window_iters=3), *rounds)
    assert isinstance(predictor, Nvrx)
    assert predictor.individual()[:2].tolist() == [0.25, 0.5]
    assert predictor.relative()[:2].tolist() == [1.0, 1.0]
    assert predictor.tags(9.0) == {0, 1}
    assert received(Nvrx(window_iters=3, scores="relative"), *rounds).tags(9.0) == set()


@given(st.data())
@settings(deadline=None)
def test_nvrx_follows_its_definition_whoever_comes_goes_and_returns(data: st.DataObject) -> None:
    """Medians and smallest medians from each worker's list of times, anew after every iteration."""
    window, kind = data.draw(st.integers(1, 4)), data.draw(st.sampled_from(["relative", "individual", "both"]))
    predictor = Nvrx(window_iters=window, scores=kind)
    times: dict[int, list[float]] = {}
    for number in range(data.draw(st.integers(1, 30))):
        worker = data.draw(st.integers(0, 5))
        if data.draw(st.integers(0, 9)) == 0:
            predictor.forget(worker)
            times.pop(worker, None)
        else:
            iter_s = data.draw(st.sampled_from([1.0, 1.25, 1.5, 2.0, 4.0]))
            predictor.update(Observation(t=float(number), worker=worker, iteration=number, iter_s=iter_s))
            times.setdefault(worker, []).append(iter_s)
        slow = set[int]()
        for one, own in times.items():
            medians = [median(own[:end][-window:]) for end in range(window, len(own) + 1)]
            now_s = median(own[-window:])
            if kind != "individual" and min(median(other[-window:]) for other in times.values()) / now_s < 0.7:
                slow.add(one)
            if kind != "relative" and medians and min(medians) / now_s < 0.7:
                slow.add(one)
        assert predictor.tags(0.0) == (slow if len(times) > 1 else set())


def test_the_oracle_reads_windows_that_are_half_open_and_may_overlap() -> None:
    times = (0.9, 1.0, 1.9, 2.0)
    slept = [Oracle(windows=[PlannedWindow(1, 1.0, 2.0, slept=True)]).tags(t) for t in times]
    assert slept == [set(), {1}, {1}, set()]
    other = []
    for t in times:
        predictor = Oracle(windows=[PlannedWindow(1, 1.0, 2.0, slept=False), PlannedWindow(0, 5.0, 6.0, slept=False)])
        other.append(received(predictor, [0.2, 0.2]).tags(t))
    assert other == [{1}, {1}, {1}, set()], "the iteration of 0.2 s that begins at 0.9 s is under way at 1 s"
    plan = [PlannedWindow(0, 0.0, 9.0, True), PlannedWindow(0, 1.0, 2.0, True), PlannedWindow(0, 12.0, 13.0, True)]
    predictor = Oracle(windows=plan)
    assert [predictor.tags(float(t)) == {0} for t in range(14)] == [True] * 9 + [False] * 3 + [True, False]


def test_a_tag_is_of_what_had_ended_by_the_beginning_of_this_process() -> None:
    """Worker 1 is slow from its second iteration on; the third, begun as that ends, is the first to be tagged."""
    rows = [(float(k), Observation(k + 1.0, 0, k, 1.0)) for k in range(8)]
    slow = [(0.0, Observation(1.0, 1, 0, 1.0)), (1.0, Observation(4.0, 1, 1, 3.0)), (4.0, Observation(7.0, 1, 2, 3.0))]
    assert backtest(straggler_predictor("last_value"), rows + slow) == [False] * 8 + [False, False, True]
    assert backtest(straggler_predictor("last_value"), slow[::-1] + rows)[:3] == [True, False, False], "in any order"
    early = backtest(straggler_predictor("last_value"), rows + slow, lead_s=0.5)
    assert early[-1] is False, "half a second before, the slow iteration has not ended"
    assert backtest(straggler_predictor("last_value"), [*rows, *slow, (7.6, Observation(9.0, 1, 3, 1.4))], lead_s=0.5)[
        -1
    ]
    rows = [(0.0, Observation(1.0, 0, 0, 1.0)), (0.0, Observation(3.0, 1, 0, 3.0)), (4.0, Observation(9.0, 1, 1, 3.0))]
    assert backtest(straggler_predictor("last_value"), rows)[-1]
    assert not backtest(straggler_predictor("last_value"), rows, [(3.5, 1)])[-1]


Step = tuple[int, float]
"""A worker, and the seconds of its next iteration."""
Times = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.25, 0.5, 1.0, 4.0])), min_size=1, max_size=40)


def one_after_another(steps: Sequence[Step]) -> list[tuple[float, Observation]]:
    """Each worker's iterations without a gap between them."""
    free_s: dict[int, float] = {}
    rows = []
    for number, (worker, iter_s) in enumerate(steps):
        begun_s = free_s.get(worker, 0.0)
        free_s[worker] = begun_s + iter_s
        rows.append((begun_s, Observation(begun_s + iter_s, worker, number, iter_s)))
    return rows


@pytest.mark.few(4)
@every_predictor
@settings(max_examples=25)
@given(steps=Times, changed=Times)
def test_the_future_changes_nothing(name: str, steps: list[Step], changed: list[Step]) -> None:
    """What begins before two stories part is tagged alike in both."""
    first, other = one_after_another(steps), one_after_another([*steps[: len(steps) // 2], *changed])
    common = len(steps) // 2
    apart_s = min((seen.t for _, seen in (*first[common:], *other[common:])), default=0.0)
    tags, others = backtest(quick(name), first), backtest(quick(name), other)
    for place in range(common):
        if first[place][0] < apart_s:
            assert tags[place] == others[place]


@every_comparing_one
def test_a_worker_that_is_always_slow_is_tagged_and_no_other(name: str) -> None:
    predictor = received(quick(name), *[[1.0, 1.0, 3.0, 1.0]] * 6)
    assert predictor.tags(6.0) == {2}
    predictor.forget(2)
    assert predictor.tags(6.0) == set()
    received(predictor, *[[1.0, 1.0, 3.0, 1.0]] * 6, since=6)
    assert predictor.tags(12.0) == {2}
    received(predictor, *[[1.0, 1.0, 1.0, 1.0]] * 40, since=12)
    assert predictor.tags(52.0) == set(), "and not forever"


@every_predictor
def test_of_equal_workers_of_one_worker_and_of_nobody_there_is_nobody_to_tag(name: str) -> None:
    assert quick(name).tags(0.0) == set()
    if name != "by_chance":
        assert received(quick(name), *[[1.0, 1.0, 1.0]] * 60).tags(60.0) == set()
    assert received(quick(name), *[[1.0]] * 5, *[[9.0]] * 5).tags(10.0) == set()


@pytest.mark.few(5)
@every_predictor
def test_a_pickled_copy_goes_on_alike(name: str) -> None:
    chance = np.random.default_rng(0)
    rounds = [list(map(float, row)) for row in chance.choice([1.0, 1.1, 3.0], size=(70, 4))]
    predictor = straggler_predictor(name, QUICK.get(name), [PlannedWindow(1, 66.0, 68.0, True)])
    received(predictor, *rounds[:60])
    copy = pickle.loads(pickle.dumps(predictor))
    for number, times in enumerate(rounds[60:], start=60):
        assert received(predictor, times, since=number).tags(number) == received(copy, times, since=number).tags(number)


BAD: list[tuple[str, Mapping[str, object], str]] = [
    ("oracel", {}, "oracel: no such predictor; there are last_value, ema, "),
    ("nvrx", {"treshold": 1}, "nvrx:treshold=1: no such setting of nvrx; it has threshold, window_iters, scores"),
    ("ema", {"alpha": 0.0}, "ema:alpha=0.0: must be above 0 and at most 1"),
    ("last_value", {"tolerance_frac": -0.1}, "last_value:tolerance_frac=-0.1: must be 0 or more"),
    ("fixed_duration", {"duration_s": 0}, "fixed_duration:duration_s=0: must be above 0"),
    ("twice_median", {"factor": 1.0}, "twice_median:factor=1.0: must be above 1"),
    ("twice_median", {"window_iters": 0}, "twice_median:window_iters=0: must be a whole number, 1 or more"),
    ("nvrx", {"scores": "all"}, "nvrx:scores=all: must be one of relative, individual, both"),
]


@pytest.mark.parametrize(("name", "settings", "message"), BAD)
def test_a_bad_hyper_parameter_is_refused_by_name(name: str, settings: Mapping[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.")):
        straggler_predictor(name, settings)
    with pytest.raises(ValueError, match=r"windows\[1\]: end_s=1.0 must be later than start_s=2.0"):
        straggler_predictor("oracle", plan=[PlannedWindow(0, 0.0, 1.0, True), PlannedWindow(0, 2.0, 1.0, True)])


def test_who_deviates_by_exactly_the_tolerance_is_not_slow() -> None:
    for deviation_frac, flagged in ((0.25, set[int]()), (0.26, {1})):
        slow = SlowFor(tolerance_frac=0.25, duration_s=2.0)
        slow.observe_deviation(0.0, 1, deviation_frac)
        slow.observe_deviation(2.0, 1, deviation_frac)
        assert slow.flagged == flagged
