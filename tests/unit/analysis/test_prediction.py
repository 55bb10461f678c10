"""Scores of predictions: worked rates and lead times, and the truths that they are measured against."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.figures.prediction import NAMES, group_title, predictor_name
from analysis.measures.prediction import RATES, lead_summary, lead_times, rates, scores
from analysis.measures.prediction_labels import (
    losses,
    planned_labels,
    realised_labels,
    timed_iterations,
    truth,
    windows,
)
from analysis.measures.work import STRAGGLER_FRAC, deviations
from analysis.records.load import RecordError, Run, load_run
from predictors.registry import STRAGGLER_PREDICTORS
from tests.support.records import Story, asp_story, bsp_story, churn_story, disturbance

BOTH = {"label": ["001110", "000000"], "tag": ["000111", "010000"]}


def table(label: list[str], tag: list[str], iter_s: float = 2.0) -> pd.DataFrame:
    """A row per worker and iteration; each begins as the one before ends."""
    rows = [
        (worker, place, iter_s * place, said[0] == "1", said[1] == "1")
        for worker, pair in enumerate(zip(label, tag, strict=True))
        for place, said in enumerate(zip(*pair, strict=True))
    ]
    return pd.DataFrame(rows, columns=["worker", "iteration", "begun_s", "label", "tag"])


def run_of(story: Story, path: Path) -> Run:
    return load_run(story.write(path))


def test_rates_are_pooled_over_the_workers_of_a_job() -> None:
    """Nine iterations did not straggle, two of them were tagged; three did, one was missed."""
    job = scores(table(**BOTH)).set_index("level").loc["job"]
    assert job["false_positive_rate"] == pytest.approx(2 / 9)
    assert job["false_negative_rate"] == pytest.approx(1 / 3)
    assert (job["precision"], job["recall"]) == (pytest.approx(2 / 4), pytest.approx(2 / 3))
    anybody = scores(table(**BOTH)).set_index("level").loc["any"]  # by iteration: labels 001110, tags 010111
    assert anybody["false_positive_rate"] == pytest.approx(2 / 3)
    assert anybody["false_negative_rate"] == pytest.approx(1 / 3)


def test_a_rate_of_nothing_is_not_zero() -> None:
    nothing = {("000", "000"): {"precision", "recall", "false_negative_rate"}, ("01", "01"): set[str]()}
    nothing |= {("111", "000"): {"precision", "false_positive_rate"}, ("111", "111"): {"false_positive_rate"}}
    for (label, tag), undefined in {**nothing, ("000", "111"): {"recall", "false_negative_rate"}}.items():
        job = scores(table([label], [tag])).set_index("level").loc["job"]
        assert {name for name in RATES if isnan(job[name])} == undefined


@given(pairs=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_the_counts_are_all_there_is_and_the_rates_follow(pairs: list[tuple[bool, bool]]) -> None:
    label, tag = (np.array([pair[side] for pair in pairs], dtype="bool") for side in (0, 1))
    found = rates(label, tag)
    counts = [found[name] for name in ("true_positives", "false_positives", "false_negatives", "true_negatives")]
    assert sum(counts) == len(pairs)
    assert isnan(found["recall"]) == isnan(found["false_negative_rate"]) == (not label.any())
    if label.any():
        assert found["recall"] + found["false_negative_rate"] == pytest.approx(1.0)
    turned = rates(~label, ~tag)
    assert turned["false_negative_rate"] == pytest.approx(found["false_positive_rate"], nan_ok=True)


@pytest.mark.parametrize(
    ("label", "tag", "lead_iters"),
    [
        ("001110", "000111", [-1.0]),  # late
        ("001110", "001000", [0.0]),
        ("001110", "111000", [2.0]),  # early
        ("001110", "100100", [-1.0]),  # the first alarm ended before: it covers nothing
        ("001110", "110001", [None]),  # neither does one that ends just before, or begins just after
        ("001110", "000101", [-1.0]),  # the first of two
        ("010010", "111111", [1.0, 4.0]),  # one alarm may cover two episodes
        ("110011", "010000", [-1.0, None]),
        ("000000", "111111", []),
    ],
)
def test_the_lead_is_from_the_first_tag_of_the_covering_alarm(
    label: str, tag: str, lead_iters: list[float | None]
) -> None:
    found = lead_times(table([label], [tag], iter_s=2.0))
    assert [None if isnan(lead) else lead for lead in found["lead_iters"]] == lead_iters
    assert list(found["missed"]) == [lead is None for lead in lead_iters]
    assert list(found["lead_s"].dropna()) == [2.0 * lead for lead in lead_iters if lead is not None]


def test_lead_times_in_short() -> None:
    labels = ["001110", "001110", "001110", "001110"]
    found = lead_summary(lead_times(table(labels, ["000111", "111000", "001000", "000000"])))
    assert (found["episodes"], found["missed"], found["late"]) == (4, 1, 1)
    assert [found[f"lead_{name}_s"] for name in ("q1", "median", "q3")] == [-1.0, 0.0, 2.0]
    nothing = lead_summary(lead_times(table(["000"], ["111"])))
    assert nothing["episodes"] == nothing["missed"] == 0
    assert isnan(nothing["lead_median_s"])
    episodes = lead_times(table(["0110", "1001"], ["0000", "0000"]))[["worker", "start_s", "iterations"]]
    assert episodes.to_numpy().tolist() == [[0, 2.0, 2], [1, 0.0, 1], [1, 6.0, 1]], "each is of one worker"


def test_under_a_barrier_the_iterations_of_a_round_are_compared(tmp_path: Path) -> None:
    """The same as what the run's summary counts: worker 1 in its three delayed iterations."""
    run = run_of(bsp_story(), tmp_path)
    rows = timed_iterations(run)
    label = realised_labels(rows, losses(run))
    slow = deviations(run.tables.iterations)
    slow = slow[slow["deviation_frac"] > STRAGGLER_FRAC]
    marked = rows[label.astype("bool")]
    assert len(slow) == 2
    assert {*zip(marked["worker"], marked["iteration"])} == {*zip(slow["worker"], slow["iteration"])}  # noqa: B905


def rows_of(*iterations: tuple[int, float, float]) -> pd.DataFrame:
    """(worker, begun, ended), without waiting, in the order of their ends."""
    rows = pd.DataFrame(iterations, columns=["worker", "begun_s", "t"]).sort_values("t", kind="stable")
    return rows.assign(iter_s=rows["t"] - rows["begun_s"], iteration=rows.groupby("worker").cumcount())


def labelled(rows: pd.DataFrame, lost: list[tuple[float, int]] | None = None) -> dict[tuple[int, float], bool | None]:
    label = realised_labels(rows, lost or [])
    return {
        (int(worker), float(begun)): None if pd.isna(each) else bool(each)
        for worker, begun, each in zip(rows["worker"], rows["begun_s"], label, strict=True)
    }


def test_without_a_barrier_it_is_what_the_others_are_doing_at_the_time() -> None:
    """At 4 s worker 1 had needed 4, and worker 0 was in an iteration of 1 (from 3 s to 4 s); at 12 s, when worker 0
    itself needs 4 (from 8 to 12 s), worker 1 needs 4, too."""
    quick = [(0, float(k), k + 1.0) for k in range(4)]
    found = labelled(rows_of(*quick, (1, 0.0, 4.0), (0, 4.0, 8.0), (0, 8.0, 12.0), (1, 4.0, 8.0), (1, 8.0, 12.0)))
    assert found[1, 0.0] is True
    assert not any(found[0, float(k)] for k in range(4))
    assert not found[1, 4.0]
    assert not found[1, 8.0]
    assert not found[0, 8.0]


def test_an_iteration_under_way_counts_and_one_that_begins_at_the_end_does_not() -> None:
    """Worker 1's iteration from 0 to 9 is what worker 0's (0 to 3) is compared with: nobody is slow but worker 1."""
    assert labelled(rows_of((0, 0.0, 3.0), (1, 0.0, 9.0), (0, 3.0, 6.0))) == {
        (0, 0.0): False,
        (1, 0.0): True,
        (0, 3.0): False,
    }
    # at 3 s worker 1 begins one of 1 s, which says nothing about what ends at 3 s
    assert labelled(rows_of((0, 0.0, 3.0), (1, 0.0, 3.0), (1, 3.0, 4.0)))[0, 0.0] is False


def test_there_must_be_somebody_to_compare_with(tmp_path: Path) -> None:
    assert labelled(rows_of((0, 0.0, 1.0), (0, 1.0, 9.0))) == {(0, 0.0): None, (0, 1.0): None}
    before = rows_of((0, 0.0, 1.0), (1, 0.0, 1.0), (0, 1.0, 4.0))
    assert labelled(before)[0, 1.0] is True
    assert labelled(before, [(2.0, 1)])[0, 1.0] is None, "worker 1 was lost meanwhile"
    assert losses(run_of(churn_story(), tmp_path)) == [(pytest.approx(0.08), 2)]


def test_the_plan_covers_what_begins_in_a_window_or_is_under_way_in_it() -> None:
    rows = rows_of((0, 0.0, 1.0), (0, 1.0, 2.0), (0, 2.0, 3.0), (0, 3.0, 4.0), (1, 1.0, 2.0))
    for slept, covered in ((True, [2.0]), (False, [1.0, 2.0])):
        plan = pd.DataFrame([(0, 1.5, 3.0, slept)], columns=["worker", "start_s", "end_s", "slept"])
        marked = rows[planned_labels(rows, plan).astype("bool")]
        assert list(marked["begun_s"]) == covered
        assert set(marked["worker"]) == {0}


def test_the_plan_of_a_record_is_that_of_its_workers(tmp_path: Path) -> None:
    plan = [
        disturbance(0.1, 0.3, "worker:1", 0.1),
        disturbance(0.1, 0.3, "server:0", 0.1),
        disturbance(0.2, 0.4, "worker:2", 1.0, "pause"),
        disturbance(0.2, 0.4, "worker:3", 1.0, "kill"),
    ]
    run = run_of(asp_story(plan=plan), tmp_path)
    assert [tuple(row) for row in windows(run).to_numpy().tolist()] == [(1, 0.1, 0.3, True), (2, 0.2, 0.4, False)]
    rows = timed_iterations(run)
    marked = rows[planned_labels(rows, windows(run)).astype("bool") & (rows["worker"] == 1)]
    assert len(marked) > 0
    assert set(marked.index) == set(
        rows.index[(rows["worker"] == 1) & (rows["begun_s"] >= 0.1) & (rows["begun_s"] < 0.3)]
    )


def test_short_batches_are_no_measure_and_telemetry_is_what_was_last_said(tmp_path: Path) -> None:
    story = Story("asp", num_workers=2)
    story.started()
    story.arrived(1.0, 0, 0, compute_s=1.0)
    story.event(1.5, "Observed", period_s=1.5, nodes=[{"node": "worker:0", "cpu_cores": 0.25}, {"node": "server:0"}])
    story.arrived(2.0, 0, 1, compute_s=1.0, iteration=1)
    story.arrived(2.5, 1, 2, compute_s=0.5, samples=3, assigned_samples=8)
    story.finished(3.0)
    rows = timed_iterations(run_of(story, tmp_path))
    assert list(rows["worker"]) == [0, 0]
    assert list(rows["cpu"]) == [1.0, 0.25]
    assert list(rows["memory"]) == [1.0, 1.0]


def test_a_record_without_iterations_is_refused(tmp_path: Path) -> None:
    story = Story()
    story.started()
    story.finished(1.0)
    with pytest.raises(RecordError, match="holds no iteration of a worker on a whole batch"):
        timed_iterations(run_of(story, tmp_path))


def test_exactly_the_tolerance_longer_is_no_straggler() -> None:
    rows = pd.DataFrame({"worker": [0, 1, 2], "iteration": 0, "begun_s": 0.0, "t": [1.0, 1.25, 1.5]})
    rows = rows.assign(iter_s=rows["t"])
    assert list(realised_labels(rows, [], tolerance_frac=0.25)) == [False, False, True]


def test_predictors_and_panels_have_names_for_people() -> None:
    assert set(STRAGGLER_PREDICTORS) <= set(NAMES)
    assert predictor_name("fixed_duration:duration_s=1") == "Slow for so long (duration_s=1)"
    assert predictor_name("my_own") == "my_own"
    assert group_title("ssp bound=3, a=1, b=2") == "SSP (bound=3), a=1, b=2"


def planned_run(path: Path, pattern: str) -> Run:
    """BSP of two workers; worker 0 has windows of this pattern in its second and third iterations."""
    story = bsp_story()
    run = run_of(story, path)
    rows = timed_iterations(run)
    begun = sorted(rows.loc[rows["worker"] == 0, "begun_s"])[1:3]
    windows = [(begun_s, begun_s + 0.01, "worker:0", "slowdown", 0.5 + place) for place, begun_s in enumerate(begun)]
    plan = pd.DataFrame(windows, columns=["start_s", "end_s", "target", "kind", "magnitude"])
    plan.attrs["pattern"] = pattern
    return replace(run, plan=plan)


def test_faults_are_the_plan_without_what_comes_by_turns(tmp_path: Path) -> None:
    """What a worker's own sequences add is no fault of it; a throttled processor is."""
    for pattern, faults in (("throttle", 2), ("sequence_lengths", 0), ("pauses", 0), ("power_law", 0)):
        run = planned_run(tmp_path / pattern, pattern)
        rows = timed_iterations(run)
        assert truth(run, rows, "plan").sum() == 2
        assert truth(run, rows, "faults").sum() == faults
        assert list(truth(run, rows, "realised").fillna(False)) == list(
            realised_labels(rows, losses(run)).fillna(False)
        )


def test_the_work_of_sequences_is_known_beforehand(tmp_path: Path) -> None:
    rows = timed_iterations(planned_run(tmp_path / "lengths", "sequence_lengths"))
    assert list(rows.loc[rows["worker"] == 0, "work"])[:4] == [1.0, 1.5, 2.5, 1.0]
    assert timed_iterations(planned_run(tmp_path / "other", "throttle"))["work"].isna().all()
