"""How the jobs of the grid of harm and gain are timed: in forks, with the same result as here."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from injectors.patterns import PowerLaw
from runtime.config.parse import parse
from runtime.run.checks.job import check_job
from stragglab.commands import harm as harm_and_gain
from stragglab.grids import harm
from stragglab.grids.grid import JobFailed
from stragglab.grids.harm import (
    HOSTS,
    Shared,
    Task,
    Timed,
    code_sha256,
    epochs_of,
    run,
    stored,
    tasks_of,
    time_job,
    timed,
)

WORDS = ("--strategies", "bsp,ssp,first_k", "--stragglers", "transient", "--workers", "4", "workload.epochs=2")


@pytest.fixture
def asked(tmp_path: Path) -> argparse.Namespace:
    return harm_and_gain.parse([*WORDS, "--jobs", "2", "-o", str(tmp_path / "out")])


def test_a_fork_times_a_job_as_this_process_does(asked: argparse.Namespace) -> None:
    tasks = list(tasks_of(asked))
    assert len(tasks) == 3
    found = {one.key: one for one in timed(tasks, 2)}
    assert found == {task.key: time_job(task, Shared()) for task in tasks}
    assert {one.outcome for one in found.values()} == {"done"}


def test_the_plan_of_a_case_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To make one of a million windows takes longer than the job that it disturbs."""
    made, plan = [], PowerLaw.plan
    monkeypatch.setattr(PowerLaw, "plan", lambda *args: (made.append(os.getpid()), plan(*args))[1])
    words = ["--strategies", "asp,ssp", "--stragglers", "power_law", "--workers", "4,5", "workload.epochs=1"]
    tasks = list(tasks_of(harm_and_gain.parse([*words, "max_time_s=30", "-o", str(tmp_path)])))
    shared = Shared()
    for task in tasks:
        shared.prepare(task)
        shared.checked(parse(task.raw))
    assert len(tasks) == 6
    assert len(made) == 2


def test_a_job_that_more_can_disturb_has_a_plan_of_its_own(tmp_path: Path) -> None:
    words = ["--strategies", "bsp", "--stragglers", "persistent", "--workers", "4,5", "-o", str(tmp_path)]
    four, five = tasks_of(harm_and_gain.parse(words))
    shared = Shared()
    shared.prepare(four)
    assert shared.checked(parse(five.raw))[0].plan == check_job(parse(five.raw)).plan
    assert shared.checked(parse(five.raw))[0].plan != check_job(parse(four.raw)).plan


def test_a_strategy_knows_the_workload_of_each_pattern(tmp_path: Path) -> None:
    """STAR's price of staleness is that of the workload, which is another one where hosts are needed."""
    words = ["--strategies", "star_h", "--stragglers", "none,cpu_throttle", "--workers", "4", "-o", str(tmp_path)]
    found = {
        (task.straggler, task.raw["workload"]["name"], task.raw["strategy"]["kappa_workload"])
        for task in tasks_of(harm_and_gain.parse(words))
        if task.strategy == "star_h"
    }
    assert found == {("none", "digits", "digits"), ("cpu_throttle", "digits_cnn", "digits_cnn")}


def test_a_job_that_was_cut_off_is_not_done(tmp_path: Path) -> None:
    asked = harm_and_gain.parse([*WORDS, "max_time_s=0.2", "-o", str(tmp_path)])
    found = time_job(next(tasks_of(asked)), Shared())
    assert (found.outcome, found.jct_s) == ("cut", 0.2)
    assert "max_time_s=0.2" in found.note


def test_jobs_of_other_code_are_run_again(asked: argparse.Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {task.key for task in tasks_of(asked)}
    assert before == {task.key for task in tasks_of(asked)}
    monkeypatch.setattr(harm, "code_sha256", lambda: "other")
    assert not before & {task.key for task in tasks_of(asked)}


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    whole = "k1,4,transient,ssp,0,done,1.5,3,\n"
    path.write_text(",".join(Timed._fields) + "\n" + whole + "k2,4,transient,bsp,0,done,1.2")
    assert list(stored(path).values()) == [Timed("k1", 4, "transient", "ssp", 0, "done", 1.5, 3, "")]


def test_epochs_are_those_of_the_next_smaller_number_of_workers() -> None:
    assert [epochs_of(HOSTS, workers) for workers in (2, 4, 15, 16, 64, 100)] == [60, 60, 60, 30, 6, 6]


@pytest.mark.long(like="test_a_fork_times_a_job_as_this_process_does")
def test_a_job_that_is_killed_is_named_and_what_was_done_is_kept(
    asked: argparse.Namespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(task: Task, shared: Shared) -> Timed:
        if task.strategy == "ssp":
            os.kill(os.getpid(), signal.SIGKILL)
        return Timed(task.key, task.workers, task.straggler, task.strategy, task.seed, "done", 1.5, 3, "")

    monkeypatch.setattr(harm, "time_job", killed)
    with pytest.raises(JobFailed, match="ssp under transient, 4 workers: exit code 137"):
        run(list(tasks_of(asked)), argparse.Namespace(**{**vars(asked), "jobs": 1}), Console())
    assert [one.strategy for one in stored(asked.out / "jobs.csv").values()] == ["bsp"]
    assert harm_and_gain.main([*WORDS, "--jobs", "1", "-o", str(asked.out)]) == 1
    assert capsys.readouterr().err == "harm: ssp under transient, 4 workers: exit code 137\n"


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        *(("virtual/loop.py", True), ("virtual/loop.c", True), ("virtual/loop.h", True), ("virtual/fit.npz", True)),
        *(("virtual/loop.so", False), (".ruff_cache/0/loop.py", False), ("virtual/.loop.py", False)),
        *(("fitted/costs/ideal.yaml", False), ("fitted/ideal.yaml", True)),
    ],
)
def test_other_code_is_other_jobs(name: str, counts: bool, tmp_path: Path) -> None:
    """The virtual clock is Python and C, and strategies decide by fitted files; a library is only what is made of C.

    Of cost models only the job's own counts, and its key has it; what tools keep in hidden folders is no code.
    """
    path = tmp_path / "runtime" / name
    path.parent.mkdir(parents=True)
    path.write_text("one")
    before = code_sha256(tmp_path)
    path.write_text("other")
    assert (code_sha256(tmp_path) != before) == counts
