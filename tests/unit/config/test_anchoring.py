"""Paths of a configuration become absolute, and nothing else does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.config.anchoring import anchored_spec, start_directory
from runtime.errors import ConfigError
from tests.support.cli import ROOT, run_cli

TRACE = "time,duration,target,kind,magnitude\n0,5,worker:0,slowdown,2.0\n"
VIRTUAL = ("runtime=virtual", "workload.epochs=1", "view=none", "draw=false", "eval_every_s=null")


def test_directories_and_files_that_are_there_become_absolute(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "digits").mkdir()
    spec = {
        "_target_": "mine.yaml",
        "data_dir": "data",
        "raw_dir": None,
        "costs": "mine.yaml",
        "progress": "digits",
        "path": "injectors/traces/example.csv",
        "nested": {"data_dir": "/there", "files": ["mine.yaml", "worker:0", 3]},
        "text": "x" * 5000 + "/y",
    }
    expected = spec | {
        "data_dir": f"{tmp_path}/data",
        "costs": f"{tmp_path}/mine.yaml",
        "nested": {"data_dir": "/there", "files": [f"{tmp_path}/mine.yaml", "worker:0", 3]},
    }
    assert anchored_spec(spec, tmp_path) == expected


def test_files_of_the_user_are_found_by_a_job_that_changes_its_directory(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(TRACE)
    shutil.copy(ROOT / "runtime" / "fitted" / "costs" / "local_tcp.yaml", tmp_path / "mine.yaml")
    for chdir, name in (("false", "a"), ("true", "b")):
        words = (f"hydra.job.chdir={chdir}", f"hydra.run.dir={name}", "cluster.costs=mine.yaml", "straggler=trace")
        done = run_cli(*VIRTUAL, *words, "straggler.path=mine.csv", cwd=tmp_path)
        assert done.exit_code == 0, done.err
    assert (tmp_path / "a" / "events.jsonl").read_bytes() == (tmp_path / "b" / "events.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "data", "mine.csv", "mine.yaml"]


@pytest.mark.long(like="test_files_of_the_user_are_found_by_a_job_that_changes_its_directory")
def test_a_directory_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    for words in ((), ("--help",)):
        gone.mkdir(exist_ok=True)
        command = [sys.executable, "-c", script, str(ROOT / "run.py"), *words]
        done = subprocess.run(command, cwd=gone, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "run.py: the current directory does not exist any more; change into one that does\n"
    gone.mkdir()
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    with pytest.raises(ConfigError, match="does not exist any more"):
        start_directory()
    monkeypatch.chdir(tmp_path)
