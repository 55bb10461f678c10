"""Runs without a record are timed in forks, with the same result as here; an experiment of them is like any other."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from rich.console import Console

from analysis.experiments.spec import Spec, load_spec
from injectors.patterns import PowerLaw
from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.parse import parse
from runtime.errors import ConfigError
from runtime.run.checks.job import check_job
from stragglab.commands import experiment, harm
from stragglab.grids import experiments, times
from stragglab.grids.code import sha256_of_all
from stragglab.grids.grid import JobFailed
from stragglab.grids.harm import choose_cells
from stragglab.grids.times import Shared, tasks_of, time_cells

pytestmark = pytest.mark.usefixtures("same_code")
OWN: dict[str, Any] = {
    "title": "three systems",
    "where": "here",
    "times_only": True,
    "settings": ["runtime=virtual", "backend=none", "workload.target=null", "workload.epochs=2", "eval_every_s=null"],
    "axes": {
        "size": {"four": ["cluster.num_workers=4"], "five": ["cluster.num_workers=5", "max_time_s=9"]},
        "straggler": {"transient": ["straggler=transient"]},
        "system": {"bsp": ["strategy=bsp"], "ssp": ["strategy=ssp"], "first_k": ["strategy=first_k"]},
    },
    "also": [{"at": {"size": ["five"], "system": ["bsp", "ssp"]}, "settings": ["max_time_s=0.2"]}],
    "paired": {"system": "bsp"},
    "figure": {"kind": "map", "panels": "size", "along": "straggler", "by": "system", "value": "jct_ratio"},
}


def spec_of(folder: Path, **changes: Any) -> Spec:
    path = folder / "toy_grid.yaml"
    path.write_text(yaml.safe_dump({**OWN, **changes}, sort_keys=False))
    return load_spec(path)


def asked(**changes: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"again": False, "redraw": False, "jobs": 2, **changes})


def raws(words: Sequence[str]) -> list[dict[str, Any]]:
    """Of the jobs of ``python run.py harm``."""
    spec = choose_cells(harm.parse([*words, "-o", "out/none_here"]))
    with composing(parse_arguments([])) as composer:
        return [composer.raw(task.words) for task in tasks_of(spec, Path("nowhere"))]


def test_an_experiment_of_times_has_a_row_per_run_and_a_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that was cut off is not done; the ratio is that to the named cell of the same size."""
    (tmp_path / "conf").mkdir()
    spec_of(tmp_path / "conf")
    monkeypatch.setattr(experiments, "SPECS", tmp_path / "conf")
    assert experiment.main(["toy_grid", "-o", str(tmp_path / "out")]) == 0
    out = tmp_path / "out" / "toy_grid"
    runs = pd.read_csv(out / "runs.csv")
    assert runs["outcome"].tolist() == ["done", "done", "done", "cut", "cut", "done"]
    assert runs["jct_s"].tolist()[3:5] == [0.2, 0.2]
    assert "max_time_s=0.2" in runs["note"][3]
    base_s = [runs["jct_s"][0]] * 3 + [0.2] * 3
    assert runs["jct_ratio"].tolist() == pytest.approx(
        [jct / base for jct, base in zip(runs["jct_s"], base_s, strict=True)]
    )
    figure = pd.read_csv(out / "toy_grid.csv")
    measured = ["jct_ratio", "jct_ratio_low", "jct_ratio_high"]
    assert figure.columns.tolist() == ["size", "straggler", "system", "outcome", "seeds", *measured]
    assert figure["jct_ratio"].tolist() == pytest.approx(runs["jct_ratio"].tolist(), rel=1e-3)
    capsys.readouterr()
    assert experiment.main(["toy_grid", "-o", str(tmp_path / "out"), "--redraw"]) == 0
    assert "6 of 6 jobs exist already" in capsys.readouterr().out


def test_the_plan_of_a_case_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make one of a million windows takes longer than the job that it disturbs; a job of more has its own."""
    _, four, _, five = raws(["--strategies", "asp", "--stragglers", "persistent", "--workers", "4,5"])
    shared = Shared()
    shared.check(four)
    assert shared.check(five)[0].plan == check_job(parse(five)).plan != check_job(parse(four)).plan
    made, plan = [], PowerLaw.plan
    monkeypatch.setattr(PowerLaw, "plan", lambda *args: (made.append(os.getpid()), plan(*args))[1])
    shared = Shared()
    jobs = raws(["--strategies", "asp,ssp", "--stragglers", "power_law", "--workers", "4,5", "max_time_s=30"])
    for raw in jobs:
        shared.check(raw)
    assert (len(jobs), len(made)) == (6, 2)


def test_jobs_of_other_code_or_settings_are_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(tmp_path)
    before = {task.path for task in tasks_of(spec, tmp_path)}
    assert before == {task.path for task in tasks_of(spec, tmp_path)}
    assert not before & {task.path for task in tasks_of(spec_of(tmp_path, settings=["runtime=virtual"]), tmp_path)}
    monkeypatch.setattr(times, "sha256_of_all", lambda: "other")
    assert not before & {task.path for task in tasks_of(spec, tmp_path)}


@pytest.mark.long(like="test_an_experiment_of_times_has_a_row_per_run_and_a_map")
def test_a_job_that_is_killed_is_named_and_what_was_done_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(raw: dict[str, Any], shared: Shared) -> dict[str, object]:
        if raw["names"]["strategy"] == "ssp":
            os.kill(os.getpid(), signal.SIGKILL)
        return {"outcome": "done", "jct_s": 1.5, "note": ""}

    monkeypatch.setattr(times, "time_job", killed)
    with pytest.raises(JobFailed, match="five_transient_ssp_seed0: exit code 137"):
        time_cells(spec_of(tmp_path), tmp_path, asked(jobs=1), Console(quiet=True))
    assert len(list((tmp_path / "times").iterdir())) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"measures": ["jct_s", "wait_frac"]}, "measures: wait_frac is not of times without records; there are jct_s"),
        ({"paired": {}}, "figure: value: jct_ratio is not measured (jct_s)"),
        ({"figure": {"kind": "map", "value": "jct_s"}}, "figure: along: names no axis; map needs its columns"),
        ({"figure": {**OWN["figure"], "along": "system"}}, "figure: along=system: is drawn twice; columns"),
        ({"also": [{"at": {"size": ["six"]}, "settings": []}]}, "also: size=six is no level"),
        ({"settings": [*OWN["settings"], "jobs=philly"]}, "times_only: is of single jobs; leave out jobs=NAME"),
        ({"settings": ["backend=none"]}, "times_only: is of the virtual clock; give every run runtime=virtual"),
        ({"failing": True}, "times_only: has no effect with failing; leave one of them out"),
        ({"also": [{"at": {}, "settings": ["seed=1"]}]}, "seed=1: seed is chosen by the program"),
    ],
)
def test_what_times_alone_cannot_be_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"toy_grid\.yaml: ") as caught:
        spec_of(tmp_path, **changes)
    assert said in str(caught.value)


def test_a_mistake_in_a_setting_of_one_level_is_found_before_the_first_run(tmp_path: Path) -> None:
    axes = {**OWN["axes"], "system": {"bsp": ["strategy=bsp"], "asp": ["strategy=asp", "strategy.bound=1"]}}
    with pytest.raises(ConfigError, match=r"strategy\.bound=1: no such setting of strategy=asp"):
        time_cells(spec_of(tmp_path, axes=axes, also=[]), tmp_path, asked(jobs=1), Console(quiet=True))
    assert not (tmp_path / "times").exists()


@pytest.mark.long(like="test_an_experiment_of_times_has_a_row_per_run_and_a_map")
def test_runs_that_fail_have_their_page_and_end_the_command_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "conf").mkdir()
    spec_of(tmp_path / "conf")
    monkeypatch.setattr(experiments, "SPECS", tmp_path / "conf")
    monkeypatch.setattr(times, "time_job", lambda raw, shared: {"outcome": "failed", "jct_s": None, "note": "broken"})
    assert experiment.main(["toy_grid", "-o", str(tmp_path / "out"), "--jobs", "1"]) == 1
    assert "toy_grid: 6 of 6 runs failed" in capsys.readouterr().err
    assert (tmp_path / "out" / "toy_grid" / "toy_grid.png").exists()


def test_epochs_are_those_of_the_next_smaller_number_of_workers() -> None:
    """Under throttles of hosts, too."""
    found = raws(("--strategies", "asp", "--stragglers", "none,cpu_throttle", "--workers", "8,128"))
    assert [raw["workload"]["epochs"] for raw in found] == [150, 150, 60, 60, 75, 75, 6, 6]


def test_other_code_is_other_jobs(tmp_path: Path) -> None:
    """The virtual clock is Python and C, and strategies decide by fitted files; a library is only what is made of C.

    What tools keep in hidden folders is no code.
    """
    code = ("virtual/loop.py", "virtual/loop.c", "virtual/loop.h", "virtual/fit.npz", "fitted/costs/ideal.yaml")
    for name in (*code, "virtual/loop.so", ".ruff_cache/0/loop.py", "virtual/.loop.py"):
        path = tmp_path / "runtime" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one")
        before = sha256_of_all(tmp_path)
        path.write_text("other")
        assert (sha256_of_all(tmp_path) != before) == (name in code), name
