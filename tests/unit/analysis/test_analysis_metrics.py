"""Metrics against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan, nan
from pathlib import Path

import pandas as pd
import pytest

from analysis.measures import targets, work
from analysis.measures.metrics import completed, jct_s, summarise
from analysis.records.load import Run, load_run
from analysis.records.stored import store_contents
from tests.support.records import Story, apply, bsp_story, compute, drop, rollback_story

SCORES = [(0, 0.1), (40, 0.5), (80, 0.7), (120, 0.7504), (160, 0.7509), (200, 0.7511), (240, 0.7512), (280, 0.7510)]


def scored(rows: Sequence[tuple[float, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["asked_s", "value"], dtype="float64")


def read(story: Story, path: Path) -> Run:
    return load_run(story.write(path / "run"))


@pytest.mark.parametrize(
    ("values", "evals", "tta_s", "step_s", "interp_s"),
    [
        ([0.5, 0.9, 0.7, 0.9, 0.95, 0.8, 0.9, 0.9, 0.9], 1, 10.0, 10.0, 10.0),
        ([0.5, 0.9, 0.7, 0.9, 0.95, 0.8, 0.9, 0.9, 0.9], 2, 30.0, 10.0, 30.0),
        ([0.5, 0.9, 0.7, 0.9, 0.95, 0.8, 0.9, 0.9, 0.9], 3, 60.0, 10.0, 60.0),
        ([0.5, 0.9, 0.7, 0.9, 0.95], 3, 30.0, 10.0, 30.0),
        ([0.5, 0.9, 0.7], 3, inf, nan, inf),
        ([0.9, 0.9, 0.9, 0.1], 3, 0.0, 0.0, 0.0),
        ([], 1, inf, nan, inf),
    ],
)
def test_a_target_is_reached_when_it_is_held(
    values: list[float], evals: int, tta_s: float, step_s: float, interp_s: float
) -> None:
    """Three evaluations in a row, or all that are left."""
    curve = scored([(10.0 * at, value) for at, value in enumerate(values)])
    found = [each(curve, 0.9, True, evals) for each in (targets.tta_s, targets.tta_step_s, targets.tta_interp_s)]
    assert found == pytest.approx([tta_s, step_s, interp_s], nan_ok=True)
    assert targets.tta_interp_s(scored(SCORES), 0.72) == pytest.approx(95.87, abs=0.005)


def test_converged_at_the_fifth_of_five_close_evaluations() -> None:
    assert targets.converged_s(scored(SCORES)) == 280.0
    assert targets.converged_s(scored(SCORES[:-1])) == inf
    rising = scored([(0, 0.5), (1, 0.75)])
    assert targets.converged_s(rising, 2, 0.25) == inf, "a change as large as the bound"
    assert targets.converged_s(rising, 2, 0.251) == 1.0


def test_lower_is_better() -> None:
    losses = scored([(0, 2.0), (10, 1.0), (20, 0.5)])
    assert targets.tta_s(losses, 0.75, higher_is_better=False) == 20.0
    assert targets.tta_s(losses, 0.5, higher_is_better=False) == 20.0
    assert targets.tta_interp_s(losses, 0.75, higher_is_better=False) == pytest.approx(15.0)
    assert targets.best(losses, higher_is_better=False) == 0.5
    assert targets.tta_s(losses, 0.75) == 0.0, "negative control: the direction matters"


def test_the_best_need_not_be_the_last_and_what_is_not_a_number_is_no_score() -> None:
    assert (targets.best(scored(SCORES)), targets.final(scored(SCORES))) == (0.7512, 0.7510)
    assert isnan(targets.final(scored([])))
    assert targets.settled(scored([(0, 0.0), (79, 0.5), (80, 0.8), (100, 0.9)])) == pytest.approx(0.85)
    frame = pd.DataFrame({"asked_s": [1.0, 2.0], "t": [1.0, 2.0], "version": [0, 1], "accuracy": [None, 0.5]})
    assert list(targets.scores(frame, "accuracy")["asked_s"]) == [2.0]
    assert len(targets.scores(frame, "perplexity")) == 0


def iterations(*rows: tuple[int, int, float], samples: int = 8) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["worker", "iteration", "iter_s"])
    return frame.assign(samples=samples, assigned_samples=8)


def test_deviations_are_of_whole_batches_and_stragglers_beyond_a_fifth() -> None:
    short = iterations((0, 0, 0.1), samples=3)
    frame = pd.concat([short, iterations((1, 0, 1.0), (2, 0, 1.1), (0, 1, 9.0))])
    assert list(work.deviations(frame)["worker"]) == [1, 2]
    frame = pd.DataFrame({"iteration": [0, 0, 1, 1], "deviation_frac": [0.0, 0.2, 0.0, 0.20001]})
    assert work.stragglers(frame) == (1, 0.5)


def test_waiting_before_the_start_of_the_job_does_not_count() -> None:
    frame = pd.DataFrame(
        [[0, 0.5, 0.0, 0.0, 1.0, 0.0, 0.2, 8, -0.4], [0, 0.25, 0.0, 0.0, 1.0, 0.0, 0.0, 8, 1.1]],
        columns=["worker", "wait_s", "pull_s", "data_s", "compute_s", "send_s", "injected_s", "samples", "start_s"],
    )
    spent = work.time_spent(frame)
    assert spent.loc[0, "wait_s"] == pytest.approx(0.1 + 0.25)
    assert spent.loc[0, "compute_s"] == pytest.approx(1.8)
    assert work.wait_frac(spent) == pytest.approx(0.35 / 2.35)
    assert work.use_frac(spent)[0] == pytest.approx(2.0 / 2.35)
    notes = pd.DataFrame({"updates": [3, 1, 0], "busy_s": [0.3, 0.9, 0.0]})
    assert list(work.server_bpt_s(notes)) == pytest.approx([0.1, 0.1, 0.1, 0.9]), "every update counts once"


def test_void_work_is_not_used_work(tmp_path: Path) -> None:
    summary = summarise(read(rollback_story(), tmp_path))
    assert (summary["updates"], summary["updates_void"], summary["rollbacks"]) == (8, 2, 1)
    assert summary["samples"]["applied"] == 256
    assert summary["samples"]["void"] == 64


def test_a_run_whose_time_was_up_is_not_completed(tmp_path: Path) -> None:
    story = Story(max_time_s=10.0)
    story.started()
    story.finished(10.0, epochs_done=1)
    assert not completed(read(story, tmp_path))
    story.lines[-1]["note"]["epochs_done"] = 2
    assert completed(read(story, tmp_path)), "the last epoch ended just in time"
    story.meta["job"]["epochs"] = None
    assert completed(read(story, tmp_path)), "a job without epochs is one of fixed time"
    run = load_run(bsp_story().write(tmp_path / "killed", keep=20, torn="{"))
    assert (jct_s(run), completed(run), summarise(run)["status"]) == (run.lines[-1].t, False, "killed")


@pytest.mark.parametrize("stop", ["stop_at_target", "stop_at_convergence"])
def test_a_job_that_was_to_stop_at_a_value_and_did_not_get_there_is_not_completed(stop: str, tmp_path: Path) -> None:
    """It has no epochs, but is not of fixed time either: how long it would have taken is unknown."""
    story = Story(max_time_s=10.0, epochs=None, **{stop: True})
    story.started()
    story.finished(10.0)
    story.lines[-1]["note"]["reason"] = "max_time_s=10 reached"
    assert not completed(read(story, tmp_path))
    story.lines[-1]["note"]["reason"] = "target accuracy reached"
    assert completed(read(story, tmp_path)), "just in time"


def test_gradients_that_workers_held_are_dropped_like_others_and_those_without_samples_are_none(tmp_path: Path) -> None:
    """Worker 1's is dropped before it was sent: one of two, although all that arrived was applied. Also when stored."""
    story = Story(num_workers=3)
    story.started()
    story.lines[-1]["commands"] = [compute(worker) for worker in range(3)]
    about = {"id": 1, "worker": 1, "incarnation": 0, "iteration": 0, "version": 0, "samples": 8, "assigned_samples": 8}
    story.event(0.1, "Ready", [drop(1)], grad=about, timings={"compute_s": 0.05}, num_bytes=100)
    story.arrived(0.2, 0, 0, [apply(0)], compute_s=0.1, version=0)
    story.arrived(0.2, 2, 2, [], compute_s=0.1, samples=0, version=0)
    run = read(story, tmp_path)
    assert summarise(run)["dropped_frac"] == 0.5
    store_contents(run)
    assert summarise(load_run(run.path))["dropped_frac"] == 0.5
