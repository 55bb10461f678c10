"""Real processes on a disk that fills up, and below ``ulimit -f``; losing the view costs nothing but the view."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.records.load import load_run
from tests.support import raw_files
from tests.support.cli import run_cli
from tests.support.leaks import Start, marked_processes
from tests.support.runs import LEDGER, ROOT

pytestmark = pytest.mark.live

RUN = (*LEDGER, "cluster.num_workers=2", "cluster.device={base_s: 0.001}", "workload.epochs=null", "max_time_s=90")
TALKS = "runtime.telemetry_every_s=0.01"
"""The record grows fast, however slow the machine is."""


def bash(script: str, *words: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, "bash", "-c", script, sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


def lines(ended: subprocess.CompletedProcess[str]) -> list[str]:
    """What it said, but for where the record is."""
    return [line for line in ended.stderr.strip().splitlines() if not line.startswith("record: ")]


def own_mounts(disk: Path) -> tuple[str, ...]:
    """The words before a program that may mount on ``disk``, which is made; skips where nobody may."""
    disk.mkdir()
    unshare = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--mount")
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "tmpfs", disk], check=False, capture_output=True).returncode:
        pytest.skip("no mount of our own here")
    return unshare


def on_a_small_disk(size: str, folder: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """A run on a disk of its own, and where its record is kept."""
    disk, kept = folder / "disk", folder / "kept"
    unshare = own_mounts(disk)
    script = (
        f'mount -t tmpfs -o size={size} tmpfs {disk}; "$0" run.py "$@"; code=$?; cp -r {disk}/run {kept}; exit $code'
    )
    return bash(script, *words, f"hydra.run.dir={disk / 'run'}", before=unshare), kept


def test_a_record_that_fills_the_disk(tmp_path: Path) -> None:
    ended, kept = on_a_small_disk("1m", tmp_path, *RUN, TALKS, "checkpoint_every_s=null")
    (line,) = lines(ended)
    assert (ended.returncode, line.endswith("no space left on device; make room and start again")) == (74, True), line
    run = load_run(kept)
    assert (run.status, run.torn) == ("disk_full", False)
    assert run.finished is not None
    assert "events.jsonl: no space left on device" in run.finished.reason


@pytest.mark.long(like="test_a_record_that_fills_the_disk")
def test_a_checkpoint_that_finds_no_room(tmp_path: Path) -> None:
    """It is a server that falls over it."""
    ended, kept = on_a_small_disk("200k", tmp_path, *RUN, "workload.task.num_samples=20000")
    (line,) = lines(ended)
    assert ended.returncode == 74, ended.stderr
    assert "server" in line
    assert "no space left on device" in line
    run = load_run(kept)
    assert (run.status, run.torn) == ("disk_full", False)


@pytest.mark.long(like="test_a_record_that_fills_the_disk")
@pytest.mark.parametrize("lost", ["2>&1 | head -1", ">&- 2>&-", ">/dev/full 2>/dev/full"])
def test_a_lost_view(tmp_path: Path, lost: str) -> None:
    words = (*RUN, "workload.epochs=1", "max_time_s=5", "view=plain", f"hydra.run.dir={tmp_path / 'run'}")
    ended = bash(f'"$0" run.py "$@" {lost}; exit ${{PIPESTATUS[0]}}', *words)
    assert ended.returncode == 0, ended.stderr
    assert load_run(tmp_path / "run").status == "done"


def test_data_that_find_no_room(tmp_path: Path) -> None:
    """Arrays are written through a map of their file, where a disk that is full would mean a signal."""
    disk, raw, left = (tmp_path / name for name in ("disk", "raw", "left"))
    raw_files.criteo(raw, lines=4000)
    script = (
        f'mount -t tmpfs -o size=200k tmpfs {disk}; "$0" run.py data "$@" --data-dir {disk}; code=$?; '
        f"ls -A {disk} > {left}; exit $code"
    )
    ended = bash(script, "criteo", "--from", str(raw), "--no-verify", before=own_mounts(disk))
    (line,) = lines(ended)
    assert (ended.returncode, line.endswith("no space left on device; make room and start again")) == (74, True), line
    assert "train_inputs.npy" in line
    assert left.read_text() == ""


ENDLESS = (*LEDGER, "cluster.num_workers=2", "cluster.device={base_s: 0.01}", "workload.epochs=null")


def remove(path: Path) -> None:
    """As ``rm -rf``, again while the run still writes into it."""
    deadline = time.monotonic() + 60
    while path.exists() and time.monotonic() < deadline:
        shutil.rmtree(path, ignore_errors=True)


def move(path: Path) -> None:
    path.rename(path.with_name("moved"))


@pytest.mark.parametrize("go", [remove, pytest.param(move, marks=pytest.mark.long)])
def test_a_job(go: Callable[[Path], None], start: Start) -> None:
    run = start("run", *ENDLESS)
    run.await_training()
    go(run.run_dir)
    assert f"{run.run_dir}: was removed or renamed" in run.fail()
    assert not run.run_dir.exists()


BRIEF = (*LEDGER, "cluster.num_workers=2", "cluster.device={base_s: 0.01}")


def modes(folder: Path) -> set[tuple[str, int]]:
    """Kinds and permissions of a folder and of what is in it."""
    found = [(path, path.stat().st_mode) for path in (folder, *folder.rglob("*"))]
    return {("folder" if stat.S_ISDIR(mode) else "file", stat.S_IMODE(mode)) for _, mode in found}


def test_records_and_processes(start: Start) -> None:
    run = start("run", *BRIEF, "workload.epochs=null", "checkpoint_every_s=0.2", "save_parameters=true")
    run.await_notes("Checkpointed")
    limits = {pid: Path(f"/proc/{pid}/limits").read_text() for pid in marked_processes()}
    assert len(limits) >= 6  # three of run.py, an agent, its tasks
    assert all("Max core file size        0                    0 " in text for text in limits.values())
    assert modes(run.run_dir) == {("folder", 0o700), ("file", 0o600)}
    run.interrupt()
    assert modes(run.run_dir) == {("folder", 0o700), ("file", 0o600)}


@pytest.mark.long(like="test_records_and_processes")
@pytest.mark.parametrize(
    "words",
    [
        ("-m", "seed=0,1", "hydra.sweep.dir=a/b"),
        ("jobs=list", "cluster=star_servers", "replay.max_iterations=2", "hydra.run.dir=a/b"),
    ],
)
def test_sweeps_and_sets(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run_cli("runtime=virtual", "backend=none", "workload.target=null", "workload.epochs=1", *words, cwd=tmp_path)
    assert done.exit_code == 0, done.err
    assert modes(tmp_path / "a") == {("folder", 0o700), ("file", 0o600)}
