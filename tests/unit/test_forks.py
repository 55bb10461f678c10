"""Runs in forks of one process: what they return, that none outlives it, and that their records are the same."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from scripts.forks import in_forks, run_here
from scripts.grid import run_child


def test_every_fork_says_how_it_ended(capfd: pytest.CaptureFixture[str]) -> None:
    def work(name: str) -> int:
        if name == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "raises":
            raise ValueError("it broke")
        return len(name)

    found = dict(in_forks(["a", "raises", "killed", "abc"], work, 2))
    assert found == {"a": 1, "raises": 1, "killed": 128 + signal.SIGKILL, "abc": 3}
    assert "it broke" in capfd.readouterr().err


def test_no_more_run_at_a_time_than_asked_for(tmp_path: Path) -> None:
    """Who finds somebody else there for the third time was not to be started."""

    def work(name: str) -> int:
        mine = tmp_path / name
        mine.touch()
        there = len(list(tmp_path.iterdir()))
        time.sleep(0.05)
        mine.unlink()
        return there

    counts = [code for _, code in in_forks([f"{number}" for number in range(6)], work, 2)]
    assert max(counts) <= 2


def test_none_is_left_when_the_others_are_no_longer_wanted(tmp_path: Path) -> None:
    def work(name: str) -> int:
        if name == "slow":
            (tmp_path / "pid.new").write_text(f"{os.getpid()}")
            (tmp_path / "pid.new").rename(tmp_path / "pid")
            time.sleep(600)
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        return 0

    running = in_forks(["slow", "fast"], work, 2)
    assert next(running) == ("fast", 0)
    running.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_run_in_a_fork_leaves_the_same_record_as_one_of_its_own(tmp_path: Path) -> None:
    words = ["cluster=virtual", "workload.epochs=1", "draw=false", "view=none", "strategy=ssp"]

    def work(name: str) -> int:
        runner = {"fork": run_here, "child": run_child}[name]
        return runner([*words, f"hydra.run.dir={tmp_path / name}"], tmp_path / f"{name}.log")

    assert dict(in_forks(["fork"], work, 1)) == {"fork": 0}
    assert work("child") == 0
    for part in ("events.jsonl", "plan.json", ".hydra/config.yaml"):
        assert (tmp_path / "fork" / part).read_bytes() == (tmp_path / "child" / part).read_bytes()
    assert "record: " in (tmp_path / "fork.log").read_text()


def test_what_is_refused_in_a_fork_says_so_in_its_log(tmp_path: Path) -> None:
    words = ["cluster=virtual", "strategy.bond=3", f"hydra.run.dir={tmp_path / 'run'}"]
    assert dict(in_forks(["x"], lambda _: run_here(words, tmp_path / "log"), 1)) == {"x": 2}
    assert (tmp_path / "log").read_text().count("\n") == 1
