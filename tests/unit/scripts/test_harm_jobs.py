"""How the jobs of the grid of harm and gain are timed: in forks, with the same result as here."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from scripts import harm_and_gain
from scripts.common.grid import JobFailed
from scripts.jobs import harm
from scripts.jobs.harm import Task, Timed, code_sha256, run, stored, tasks_of, time_job, timed

WORDS = ("--strategies", "bsp,ssp,first_k", "--stragglers", "transient", "--workers", "4", "workload.epochs=2")


@pytest.fixture
def asked(tmp_path: Path) -> argparse.Namespace:
    return harm_and_gain.parse([*WORDS, "--jobs", "2", "-o", str(tmp_path / "out")])


def test_a_fork_times_a_job_as_this_process_does(asked: argparse.Namespace) -> None:
    tasks = list(tasks_of(asked))
    assert len(tasks) == 3
    found = {one.key: one for one in timed(tasks, 2)}
    assert found == {task.key: time_job(task) for task in tasks}
    assert {one.outcome for one in found.values()} == {"done"}


@pytest.mark.long(like="test_a_fork_times_a_job_as_this_process_does")
def test_a_job_that_is_killed_is_named_and_what_was_done_is_kept(
    asked: argparse.Namespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(task: Task) -> Timed:
        if task.strategy == "ssp":
            os.kill(os.getpid(), signal.SIGKILL)
        return Timed(task.key, task.workers, task.straggler, task.strategy, task.seed, "done", 1.5, 3, "")

    monkeypatch.setattr(harm, "time_job", killed)
    with pytest.raises(JobFailed, match="ssp under transient, 4 workers: exit code 137"):
        run(list(tasks_of(asked)), argparse.Namespace(**{**vars(asked), "jobs": 1}), Console())
    assert [one.strategy for one in stored(asked.out / "jobs.csv").values()] == ["bsp"]
    assert harm_and_gain.main([*WORDS, "--jobs", "1", "-o", str(asked.out)]) == 1
    assert capsys.readouterr().err == "harm_and_gain.py: ssp under transient, 4 workers: exit code 137\n"


@pytest.mark.parametrize(
    ("name", "counts"), [("loop.py", True), ("loop.c", True), ("loop.h", True), ("fit.npz", True), ("loop.so", False)]
)
def test_other_code_is_other_jobs(name: str, counts: bool, tmp_path: Path) -> None:
    """The virtual clock is Python and C, and strategies decide by fitted files; a library is only what is made of C."""
    path = tmp_path / "runtime" / "virtual" / name
    path.parent.mkdir(parents=True)
    path.write_text("one")
    before = code_sha256(tmp_path)
    path.write_text("other")
    assert (code_sha256(tmp_path) != before) == counts
