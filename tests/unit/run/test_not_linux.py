"""Without Linux' own calls the virtual runtime gives the same bytes, and live runs are refused in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.record import meta
from tests.support.cli import ROOT, run_cli
from tests.support.long_tests import long_after
from tests.support.prepared import Prepared

JOB = ("runtime=virtual", "workload.epochs=1", "view=plain")


Mac = Callable[..., subprocess.CompletedProcess[str]]
"""Runs a program of ours, ``mac("run.py", "seed=3", cwd=...)``."""


@pytest.fixture
def mac(prepared: Prepared) -> Mac:
    def run(program: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = (str(ROOT / "tests" / "support" / "not_linux.py"), str(ROOT / program), *words)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(ROOT))
            return prepared.run(*command, cwd=cwd)

    return run


@pytest.mark.long(like="test_what_needs_linux_is_refused_in_one_line")
@pytest.mark.timeout(400)
def test_a_virtual_run_gives_the_same_bytes(mac: Mac, tmp_path: Path) -> None:
    """With gradients, checkpoints, evaluations and figures; then asked again by replay.py and drawn again."""
    words = (*JOB, "checkpoint_every_s=0.5", "save_parameters=true")
    there = mac("run.py", *words, "draw=false", "hydra.run.dir=mac", cwd=tmp_path)
    assert there.returncode == 0, there.stderr
    here = run_cli(*words, "draw=false", "hydra.run.dir=linux", cwd=tmp_path)
    assert here.exit_code == 0, here.err
    for name in ("events.jsonl", "parameters.npy"):
        assert (tmp_path / "mac" / name).read_bytes() == (tmp_path / "linux" / name).read_bytes()
    for word in ("replay", "figures"):
        done = mac("run.py", word, "mac", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "mac" / "figures").is_dir()


@pytest.mark.few(1)
@pytest.mark.parametrize("words", long_after([(), ("doctor",), ("-m", "seed=0,1")], always=2))
def test_what_needs_linux_is_refused_in_one_line(words: tuple[str, ...], mac: Mac, tmp_path: Path) -> None:
    done = mac("run.py", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "need Linux, and this is darwin" in done.stderr
    assert "runtime=virtual" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_cores_where_a_system_tells_only_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert meta.num_cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert meta.num_cores() == 7


def test_windows_is_told_in_one_line() -> None:
    script = "import os, pathlib; os.name = 'nt'; import runtime"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Stragglab needs Linux (or macOS, for runtime=virtual only); on Windows, use WSL\n"
