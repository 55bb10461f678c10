"""The number that a sweeper of Hydra's optimises."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from analysis.measures.objectives import value_of
from analysis.records.load import load_run
from tests.support.cli import run_cli

JOB = ("runtime=virtual", "workload=digits", "straggler=none", "workload.epochs=2", "view=none")


def test_values_are_those_of_the_summary(tmp_path: Path) -> None:
    assert run_cli(*JOB, "workload.target=0.5", "hydra.run.dir=out", cwd=tmp_path).exit_code == 0
    summary, run = json.loads((tmp_path / "out" / "summary.json").read_text()), load_run(tmp_path / "out")
    assert value_of(run, "tta") == summary["tta_s"] > 0
    assert value_of(run, "jct") == summary["jct_s"] > summary["tta_s"]
    assert value_of(run, "final") == summary["final_metric"] > 0.5


@pytest.mark.long(like="test_values_are_those_of_the_summary")
def test_there_is_no_value_of_what_was_not_reached(tmp_path: Path) -> None:
    words = (*JOB, "workload.target=0.999", "max_time_s=1", "draw=false", "hydra.run.dir=out")
    assert run_cli(*words, cwd=tmp_path).exit_code == 0
    run = load_run(tmp_path / "out")
    assert math.isnan(value_of(run, "tta"))
    assert math.isnan(value_of(run, "jct"))  # cut off


@pytest.mark.parametrize(
    ("words", "named"),
    [(("metric=tta", "workload.target=null"), "workload.target"), (("metric=jct", "jobs=list"), "jobs=list")],
)
def test_a_metric_that_the_run_would_not_have_is_refused(words: tuple[str, ...], named: str, tmp_path: Path) -> None:
    done = run_cli(*JOB, *words, cwd=tmp_path)
    assert (done.exit_code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith("run.py: metric=")
    assert named in done.err
