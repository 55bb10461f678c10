"""What a run writes is its user's alone, and none of its processes dumps core, since they hold its secret."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.support.cli import run_cli
from tests.support.leaks import Start, marked_processes
from tests.support.runs import LEDGER

pytestmark = pytest.mark.live

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


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("-m", "seed=0,1", "hydra.sweep.dir=a/b"), id="sweep"),
        pytest.param(
            ("jobs=list", "cluster=star_servers", "replay.max_iterations=2", "hydra.run.dir=a/b"),
            id="set",
        ),
    ],
)
def test_sweeps_and_sets(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run_cli("runtime=virtual", "backend=none", "workload.target=null", "workload.epochs=1", *words, cwd=tmp_path)
    assert done.exit_code == 0, done.err
    assert modes(tmp_path / "a") == {("folder", 0o700), ("file", 0o600)}
