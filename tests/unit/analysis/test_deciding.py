"""What decisions took: computed, scored, paused, each from its own lines of a record."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.experiments.measures import decide_frac, solve_s, target_s
from analysis.measures.deciding import choice_s, decide_s, decision_s, paused_s, pauses, scoring_s
from analysis.records.load import load_run
from tests.support.records import Story, bsp_story, score

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
