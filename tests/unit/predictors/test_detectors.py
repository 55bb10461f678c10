"""Detectors of slow workers: the worked numbers of their sources, and oracles that are computed in another way."""

from __future__ import annotations

from itertools import product
from math import exp, log, pi
from math import lgamma as log_gamma

import numpy as np
import pytest

from analysis.measures.prediction import alarms, places, rates
from predictors.by_chance import ByChance
from predictors.by_work import ByWork
from predictors.change_point import PRIOR_COUNT, PRIOR_DEVIATION, PRIOR_FREEDOM, ChangePoint, RunLengths
from predictors.fixed_duration import SlowFor
from predictors.nvrx import Nvrx
from predictors.oracle import Oracle, PlannedWindow
from predictors.outlier import outliers
from predictors.registry import straggler_predictor
from predictors.stage_frontier import StageFrontier
from predictors.stragglers import Observation, StragglerPredictor
from predictors.waits_least import WaitsLeast
from tests.unit.predictors.test_straggler_predictors import received


@pytest.mark.parametrize(
    ("values", "flagged"),
    [
        ([100, 100, 100, 111], {3}),  # MAD 0: the 10 per cent decide
        ([100, 100, 100, 110], set()),
        ([90, 95, 100, 105, 110], set()),  # median 100, MAD 5: 10 is not more than 10 per cent
        ([60, 80, 100, 120, 135], {4}),  # MAD 20, 35 above
    ],
)
def test_megatrons_outliers_are_above_the_deviation_and_a_tenth(values: list[float], flagged: set[int]) -> None:
    """threshold = max(MAD, 0.1 median), as in gpu_sniff_test; a fast rank is an outlier there and no straggler here."""
    assert outliers(dict(enumerate(values)), 1.0, 0.1) == flagged


def test_a_modified_z_score_above_three_and_a_half() -> None:
    """Iglewicz and Hoaglin's example: 2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3 has two outliers."""
    values = [2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3]
    assert received(straggler_predictor("robust_z"), values).tags(0.0) == {8, 9}
    middle = np.median(values)
    scores = 0.6745 * (np.array(values) - middle) / np.median(np.abs(values - middle))
    assert {int(place) for place in np.flatnonzero(scores > 3.5)} == {8, 9}


def test_the_culprit_is_the_one_that_all_wait_for() -> None:
    """The upper median of the waits 0, 0.5, 0.5, 0.5 is 0.5 of 1.5 s; of 0, 0.2, 0.2, 0.2 it is 0.2 of 2.2 s."""
    assert received(WaitsLeast(), [1.0, 1.5, 1.0, 1.0]).tags(0.0) == {1}
    assert received(WaitsLeast(), [2.0, 2.2, 2.0, 2.0]).tags(0.0) == set()
    assert received(WaitsLeast(), [2.0, 1.0, 2.0, 2.0]).tags(0.0) == set(), "most wait for nobody"


def test_the_culprit_of_traceml() -> None:
    """Its tests' backward times of 10, 20, 30 and 40 ms: rank 0, as the upper median waits for 20; 9 of 100 is none."""

    def tags(*backward_ms: float) -> frozenset[int]:
        return received(WaitsLeast(), [100.0 + min(backward_ms) - each for each in backward_ms]).tags(0.0)

    assert tags(10.0, 20.0, 30.0, 40.0) == {0}
    assert tags(10.0, 19.0) == set()
    assert tags(10.0, 30.0) == {0}


@pytest.mark.parametrize("slow", [(), (0,), (0, 1)])
@pytest.mark.parametrize("scores", ["relative", "individual"])
def test_nvrx_finds_whom_its_own_tests_slow_down(slow: tuple[int, ...], scores: str) -> None:
    """tests/straggler/unit/test_sections.py: four ranks, 100 iterations of 10 ms, or of 15, with a deviation of 3.

    A report covers 50; ranks are slow in both, or in the second one if they are compared with themselves. The
    threshold is that of ``identify_stragglers``.
    """
    chance, predictor = np.random.default_rng(0), Nvrx(threshold=0.75, window_iters=50, scores=scores)
    means = np.full((100, 4), 10.0)
    means[50 if scores == "individual" else 0 :, slow] = 15.0
    received(predictor, *np.maximum(chance.normal(means, 3.0), 0.1).tolist())
    assert predictor.tags(100.0) == {*slow}


def staged(predictor: StragglerPredictor, *rows: tuple[float, float, float]) -> StragglerPredictor:
    for worker, (data_s, compute_s, send_s) in enumerate(rows):
        whole_s = data_s + compute_s + send_s
        predictor.update(Observation(1.0, worker, 0, whole_s, data_s=data_s, send_s=send_s))
    return predictor


def test_the_frontier_adds_up_and_names_the_stage_where_a_delay_appears() -> None:
    """Worker 1 loads for 3 s: the frontier is 3, 5, 6, of which 2 s are beyond the median of loading."""
    frontier = staged(StageFrontier(), (1.0, 2.0, 1.0), (3.0, 2.0, 1.0), (1.0, 2.0, 1.0))
    assert isinstance(frontier, StageFrontier)
    assert [tuple(one) for one in frontier.exposed()] == [
        ("data", 1, 3.0, 2.0),
        ("compute", 1, 2.0, 0.0),
        ("send", 1, 1.0, 0.0),
    ]
    assert frontier.tags(0.0) == {1}


@pytest.mark.parametrize("seed", range(3))
def test_increments_of_the_frontier_are_the_longest_iteration(seed: int) -> None:
    rows = np.random.default_rng(seed).random((7, 3))
    frontier = staged(StageFrontier(), *map(tuple, rows))  # type: ignore[arg-type]
    assert isinstance(frontier, StageFrontier)
    assert sum(one.seconds for one in frontier.exposed()) == pytest.approx(rows.sum(axis=1).max())


def log_evidence(values: list[float], prior: tuple[float, float, float, float]) -> float:
    """Log marginal likelihood of one segment under a normal-gamma prior, in closed form."""
    mean, count, shape, scale = prior
    number = len(values)
    if not number:
        return 0.0
    own = float(np.mean(values))
    squares = float(((np.array(values) - own) ** 2).sum())
    after = scale + squares / 2 + count * number * (own - mean) ** 2 / (2 * (count + number))
    gammas = log_gamma(shape + number / 2) - log_gamma(shape)
    powers = shape * log(scale) - (shape + number / 2) * log(after)
    return gammas + powers + log(count / (count + number)) / 2 - number / 2 * log(2 * pi)


def by_enumeration(values: list[float], hazard: float) -> dict[int, float]:
    """The posterior of the run length after the last value: the sum over all 2^n series of changes."""
    first = values[0]
    prior = (first, PRIOR_COUNT, PRIOR_FREEDOM, PRIOR_FREEDOM * (PRIOR_DEVIATION * first) ** 2)
    found: dict[int, float] = {}
    for changes in product((False, True), repeat=len(values)):  # after each value
        weight, segment = 0.0, []
        for value, change in zip(values, changes, strict=True):
            segment.append(value)
            weight += log(hazard if change else 1 - hazard)
            if change:
                weight += log_evidence(segment, prior)
                segment = []
        weight += log_evidence(segment, prior)
        found[len(segment)] = found.get(len(segment), 0.0) + exp(weight)
    total = sum(found.values())
    return {length: value / total for length, value in found.items()}


@pytest.mark.parametrize(
    "values", [[1.0, 1.01, 0.99, 1.0], [1.0, 1.02, 0.98, 1.5, 1.52, 1.49, 1.5], [2.0, 3.0, 2.0, 3.0, 2.5, 2.0]]
)
@pytest.mark.parametrize("hazard", [0.004, 0.2])
def test_run_lengths_are_those_of_all_segmentations(values: list[float], hazard: float) -> None:
    """Adams and MacKay's recursion against brute force over every set of change points; other series change nothing."""
    runs, likeliest = RunLengths(hazard), {3: 0}
    for place, value in enumerate(values):
        runs.add({7: 5.0 - place})
        likeliest = runs.add({3: value} if place % 2 else {5: 1.0, 3: value})
    brute, mine = by_enumeration(values, hazard), runs.series == 3
    found = dict(zip(runs.lengths[mine].tolist(), np.exp(runs.log_p[mine]).tolist(), strict=True))
    assert found == pytest.approx({length: brute[length] for length in found}, rel=1e-3, abs=1e-5)
    assert likeliest[3] == max(brute, key=lambda length: brute[length])
    runs.forget(3)
    assert {*runs.series.tolist()} == {5, 7}


def series(predictor: ChangePoint, levels: list[tuple[int, float]], noise: float = 0.01) -> list[bool]:
    """Whether worker 0 is tagged after each iteration; the other three stay at 1 s."""
    chance, tagged, number = np.random.default_rng(0), [], 0
    for iterations, level_s in levels:
        for _ in range(iterations):
            for worker in range(4):
                seconds = (level_s if worker == 0 else 1.0) * (1 + noise * chance.standard_normal())
                predictor.update(Observation(float(number), worker, number, seconds))
            tagged.append(predictor.tags(float(number)) == {0})
            number += 1
    return tagged


def test_a_change_of_ten_per_cent_counts_and_one_of_five_does_not() -> None:
    found = series(ChangePoint(), [(30, 1.0), (30, 1.3), (30, 1.0)])
    assert not any(found[:31])
    assert all(found[34:60]), "from the second slow iteration or so to the last"
    assert not any(found[64:])
    assert not any(series(ChangePoint(), [(30, 1.0), (60, 1.05)]))


def test_long_sequences_explain_long_iterations() -> None:
    """T = 1 + 2 work; worker 2 needs half as long again as its work explains."""
    predictor, others = ByWork(), straggler_predictor("last_value")
    chance = np.random.default_rng(0)
    for number in range(20):
        for worker in range(4):
            work = float(chance.uniform(0.5, 4.0))
            seconds = (1 + 2 * work) * (1.5 if worker == 2 else 1.0)
            for one in (predictor, others):
                one.update(Observation(float(number), worker, number, seconds, work=work))
    assert predictor.tags(20.0) == {2}
    assert predictor.residual_fracs()[2] == pytest.approx(0.5, abs=0.1)
    assert others.tags(20.0) - {2}, "who does not know the work accuses whoever had much"


def test_chance_has_the_precision_and_recall_of_arithmetic() -> None:
    """Of 16,000 iterations 25 % straggle; with p = 0.1 recall is 0.1 and precision 0.25, within four deviations."""
    predictor = ByChance(probability=0.1)
    label, tag = [], []
    for number in range(4_000):
        tagged = predictor.tags(float(number))
        for worker in range(4):
            label.append(worker == 0)
            tag.append(worker in tagged)
            predictor.update(Observation(float(number), worker, number, 1.0))
    found = rates(np.array(label), np.array(tag))
    assert found["recall"] == pytest.approx(0.1, abs=0.02)
    assert found["precision"] == pytest.approx(0.25, abs=0.045)


def test_alarms_are_counted_by_episode_and_by_iteration() -> None:
    """Two false alarms in 20 iterations; one of two episodes is caught, an iteration late; 1 hit, 5 tags, 3 labels."""
    import pandas as pd

    label = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    caught = [1, 0, 1, 1, 0, 0, 0, 0, 1, 1]  # false; two late, past the end; missed; false
    times = [(worker, number, not worker) for worker in range(2) for number in range(10)]
    rows = pd.DataFrame(
        [(w, 360.0 * n, 360.0 * (n + 1), bool(label[n] and own), bool(caught[n] and own)) for w, n, own in times],
        columns=["worker", "begun_s", "t", "label", "tag"],
    )
    found = alarms(rows)
    assert found == {"f1": 2 / 8, "caught_frac": 0.5, "delay_iters": 1.0, "false_alarms_per_1000": 100.0}
    calm = alarms(rows.assign(label=False, tag=False))
    assert calm.pop("false_alarms_per_1000") == 0.0
    assert np.isnan(list(calm.values())).all()


def test_places_are_judged_by_step_and_abstention_apart() -> None:
    """Workers 0 and 1 share a host, which is slow in steps 0 to 2: it is named alone, with worker 2, and not at all."""
    import pandas as pd

    tags = [{0}, {1, 2}, set(), {2}, set()]
    rows = [
        (
            step,
            worker,
            0 if worker < 2 else worker,
            step < 3 and worker < 2,
            worker in tagged,
            "data" if step else "send",
        )
        for step, tagged in enumerate(tags)
        for worker in range(4)
    ]
    frame = pd.DataFrame(rows, columns=["iteration", "worker", "place", "label", "tag", "said"]).assign(part="send")
    frame.loc[~frame["tag"], "said"] = ""
    assert places(frame) == {
        "located_frac": (1 + 1 / 2) / 2,
        "part_frac": 1 / 2,
        "abstained_frac": 1 / 3,
        "score": 2 * 2 / (6 + 4),
    }
    calm = places(frame.assign(label=False))
    assert calm["score"] == 2 / 5, "of five steps two accuse nobody"
    assert np.isnan([calm["located_frac"], calm["abstained_frac"], calm["part_frac"]]).all()


@pytest.mark.parametrize("guilty", [1, 2, 3])
def test_chance_names_the_right_place_as_often_as_places_are_guilty(guilty: int) -> None:
    """Of four workers ``guilty`` straggle in each step, so that this part of all accusations is right."""
    import pandas as pd

    predictor, rows = ByChance(probability=0.3), []
    for step in range(3_000):
        tagged = predictor.tags(float(step))
        for worker in range(4):
            rows.append((step, worker, worker, worker < guilty, worker in tagged))
            predictor.update(Observation(float(step), worker, step, 1.0))
    found = places(
        pd.DataFrame(rows, columns=["iteration", "worker", "place", "label", "tag"]).assign(said="", part="")
    )
    assert found["located_frac"] == pytest.approx(guilty / 4, abs=0.04)
    assert found["abstained_frac"] == pytest.approx(0.7**4, abs=0.04)


@pytest.mark.parametrize("seed", range(4))
def test_the_oracle_answers_what_the_plan_says_at_any_time(seed: int) -> None:
    """Against every window, one by one; windows may overlap, and iterations become shorter."""
    chance = np.random.default_rng(seed)
    starts = chance.uniform(0, 20, size=(12,))
    plan = [
        PlannedWindow(int(chance.integers(3)), start, start + float(chance.uniform(0.1, 4)), bool(chance.integers(2)))
        for start in starts.tolist()
    ]
    oracle, shortest = Oracle(windows=plan), {0: 0.0, 1: 0.0, 2: 0.0}
    for place, t in enumerate(np.sort(chance.uniform(0, 25, size=400)).tolist()):
        expected = {
            one.worker
            for one in plan
            if t < one.end_s and one.start_s <= (t if one.slept else t + shortest[one.worker])
        }
        assert oracle.tags(t) == expected
        if place % 40 == 5:
            worker, seconds = int(chance.integers(3)), float(chance.uniform(0.2, 1))
            shortest[worker] = min(seconds, shortest[worker] or seconds)
            oracle.update(Observation(t, worker, place, seconds))


@pytest.mark.parametrize("seed", range(3))
def test_the_fastest_is_known_though_it_becomes_slower_or_leaves(seed: int) -> None:
    """A worker is slow against the smallest latest time of all, as computed from scratch."""
    chance, slow = np.random.default_rng(seed), SlowFor(0.2, 1e-9)
    latest: dict[int, float] = {}
    for number in range(300):
        worker = int(chance.integers(5))
        if chance.random() < 0.1:
            latest.pop(worker, None)
            slow.forget(worker)
            continue
        latest[worker] = float(chance.choice([1.0, 1.1, 1.3, 2.0]))
        slow.observe_duration(float(number), worker, latest[worker])
        assert (worker in slow.slow_since_s) == (latest[worker] > 1.2 * min(latest.values()))
