"""The number that a sweeper of Hydra's optimises."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analysis.measures.metrics import summarise
from analysis.measures.objectives import value_of
from analysis.records.load import load_run
from tests.support.cli import run_cli
from tests.support.records import bsp_story

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
