"""Metrics against numbers worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import inf, isnan, nan
from pathlib import Path

import pandas as pd
import pytest

from analysis.experiments.measures import decide_frac, solve_s, target_s
from analysis.measures import targets, work
from analysis.measures.deciding import choice_s, decide_s, decision_s, paused_s, pauses, scoring_s
from analysis.measures.metrics import has_completed, jct_s, summarise
from analysis.measures.objectives import value_of
from analysis.records.load import Run, load_run
from analysis.records.stored import store_contents
from tests.support.cli import run_cli
from tests.support.records import Story, apply, bsp_story, compute, drop, rollback_story, score

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
    assert targets.converged_value(scored([(0, 0.0), (79, 0.5), (80, 0.8), (100, 0.9)])) == pytest.approx(0.85)
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
    assert not has_completed(read(story, tmp_path))
    story.lines[-1]["note"]["epochs_done"] = 2
    assert has_completed(read(story, tmp_path)), "the last epoch ended just in time"
    story.meta["job"]["epochs"] = None
    assert has_completed(read(story, tmp_path)), "a job without epochs is one of fixed time"
    run = load_run(bsp_story().write(tmp_path / "killed", keep=20, torn="{"))
    assert (jct_s(run), has_completed(run), summarise(run)["status"]) == (run.lines[-1].t, False, "killed")


@pytest.mark.parametrize("stop", ["stop_at_target", "stop_at_convergence"])
def test_a_job_that_was_to_stop_at_a_value_and_did_not_get_there_is_not_completed(stop: str, tmp_path: Path) -> None:
    """It has no epochs, but is not of fixed time either: how long it would have taken is unknown."""
    story = Story(max_time_s=10.0, epochs=None, **{stop: True})
    story.started()
    story.finished(10.0)
    story.lines[-1]["note"]["reason"] = "max_time_s=10 reached"
    assert not has_completed(read(story, tmp_path))
    story.lines[-1]["note"]["reason"] = "target accuracy reached"
    assert has_completed(read(story, tmp_path)), "just in time"


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


JOB = ("runtime=virtual", "workload=digits", "straggler=none", "workload.epochs=2", "view=none")


def test_values_are_those_of_the_summary(tmp_path: Path) -> None:
    run = load_run(bsp_story(target=0.25).write(tmp_path / "run"))
    summary = summarise(run)
    assert value_of(run, "tta") == summary["tta_s"] > 0
    assert value_of(run, "jct") == summary["jct_s"] > summary["tta_s"]
    assert value_of(run, "final") == summary["final_metric"] > 0.25
    story = bsp_story(target=0.99, max_time_s=0.1)
    story.lines[-1]["note"]["epochs_done"] = 0
    cut = load_run(story.write(tmp_path / "cut off"))
    assert math.isnan(value_of(cut, "tta"))
    assert math.isnan(value_of(cut, "jct"))


@pytest.mark.parametrize(
    ("words", "named"),
    [(("metric=tta", "workload.target=null"), "workload.target"), (("metric=jct", "jobs=list"), "jobs=list")],
)
def test_a_metric_that_the_run_would_not_have_is_refused(words: tuple[str, ...], named: str, tmp_path: Path) -> None:
    done = run_cli(*JOB, *words, cwd=tmp_path)
    assert (done.exit_code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith("run.py: metric=")
    assert named in done.err


GRAD = {"worker": 0, "incarnation": 0, "iteration": 0, "version": 0, "samples": 8, "assigned_samples": 8}
SAID = {"dot": 1.0, "sqr_grad": 1.0, "sqr_ref": 1.0, "ref_version": 0}


def wake(at_s: float, tag: str) -> dict[str, object]:
    return {"type": "Wake", "at_s": at_s, "tag": tag}


def scored_story() -> Story:
    """Gradients 0 and 1 are scored in 0.3 and 0.2 s, the second one meanwhile; a third is lost."""
    told = Story("zeno_pp")
    told.started()
    told.arrived(1.0, 0, 0, [score(0, refresh=True)])
    told.arrived(1.2, 1, 1, [score(1)])
    told.event(1.3, "Scored", grad={"id": 0, **GRAD}, **SAID)
    told.event(1.4, "Scored", [score(2)], grad={"id": 1, **GRAD}, **SAID)
    told.finished(2.0)
    return told


def test_scores_are_waited_for(tmp_path: Path) -> None:
    run = load_run(scored_story().write(tmp_path / "run"))
    assert scoring_s(run) == pytest.approx(0.3 + 0.2)
    assert decide_s(run) == pytest.approx(5 * 10e-6), "ten microseconds for every event"
    assert decision_s(run) == pytest.approx(0.5 + 5 * 10e-6)
    assert paused_s(run) == 0.0


def test_what_was_not_measured_is_not_zero(tmp_path: Path) -> None:
    told = Story("antdt_nd")
    told.started()
    told.event(1.0, "Woke", tag="decide")
    told.finished(2.0)
    assert solve_s(load_run(told.write(tmp_path / "measured"))) == pytest.approx(10e-6)
    for line in told.lines:
        line.pop("decide_us", None)
    run = load_run(told.write(tmp_path / "run"))
    assert all(map(pd.isna, (decide_s(run), decide_frac(run), solve_s(run))))


def test_pauses_are_those_of_decisions_and_switches(tmp_path: Path) -> None:
    told = Story("star_h")
    told.started()
    told.arrived(1.0, 0, 0, [wake(1.25, "decided")])
    told.arrived(2.0, 0, 1, [wake(4.0, "switched"), wake(9.0, "probe")])
    told.finished(3.0)
    assert pauses(load_run(told.write(tmp_path / "run"))) == [0.25, 2.0]


def test_only_answers_that_choose_a_mode_count_as_choices(tmp_path: Path) -> None:
    """STAR, section V-D: the heuristic and the model are timed, here 900, 300 and 500 us; other answers take 10 us."""
    told = Story("star_h")
    told.started()
    for t, (decisions, took_us) in enumerate([(0, None), (1, 900), (1, 10), (2, 300), (3, 500)], start=1):
        told.arrived(float(t), 0, t)
        told.lines[-1]["state"] = {"decisions": decisions, "switches": t}
        if took_us:
            told.lines[-1]["decide_us"] = took_us
    told.finished(9.0)
    assert choice_s(load_run(told.write(tmp_path / "run"))) == pytest.approx(500e-6)
    assert pd.isna(choice_s(load_run(scored_story().write(tmp_path / "other"))))


def test_time_to_the_jobs_own_target(tmp_path: Path) -> None:
    """The curve of a story passes 0.14 at its first update, 0.3 at its sixth, and never 0.99."""
    reached = target_s(load_run(bsp_story(target=0.14).write(tmp_path / "a")))
    assert 0 < reached < target_s(load_run(bsp_story(target=0.3).write(tmp_path / "b"))) < 5
    assert target_s(load_run(bsp_story(target=0.99).write(tmp_path / "c"))) == float("inf")
    assert pd.isna(target_s(load_run(bsp_story(target=None).write(tmp_path / "d"))))
