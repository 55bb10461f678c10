"""Runs are started from anywhere, and their paths mean the user's directory: not the repository's, nor the record's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.runs import ROOT, RecordSink

pytestmark = pytest.mark.live

PACKAGES = ("analysis", "conf", "injectors", "predictors", "reading", "runtime", "strategies", "stragglab", "workloads")
JOB = ("workload.epochs=2", "straggler=none", "cluster.device=null", "cluster.num_workers=2", "eval_every_s=60")
NOMINAL = ("cluster.device={base_s:0.02}",)
QUIET = ("view=none", "draw=false")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with worthless data of its own."""
    place = tmp_path_factory.mktemp("checkout")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, place / name)  # with what was compiled of it
    shutil.copy(ROOT / "run.py", place)
    data = place / "data" / "digits"
    data.mkdir(parents=True)
    for part, count in (("train", 1438), ("test", 359)):
        np.save(data / f"{part}_inputs.npy", np.zeros((count, 64), np.float32))
        np.save(data / f"{part}_targets.npy", np.zeros(count, np.int64))
    return place


def run_from(place: Path, checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(checkout / "run.py"), *QUIET, *words]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=90)


def metrics(run_dir: Path) -> dict[str, float]:
    """Of the last evaluation."""
    found: dict[str, float] = RecordSink(run_dir).events("Evaluated")[-1]["metrics"]
    return found


@pytest.mark.long(
    like="tests/unit/config/test_anchoring.py::test_files_of_the_user_are_found_by_a_job_that_changes_its_directory"
)
@pytest.mark.parametrize(
    "more",
    [pytest.param((), id="plain", marks=pytest.mark.long), pytest.param(("hydra.job.chdir=true",), id="chdir")],
)
def test_a_run_trains_on_the_data_of_the_directory_in_which_it_was_started(
    more: tuple[str, ...], checkout: Path, tmp_path: Path
) -> None:
    """With all-zero images a network cannot tell digits apart: an accuracy of 0.1 or, with all-zero labels, of 1."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "analysis").mkdir()  # of the user; not ours
    (outside / "analysis" / "__init__.py").write_text("raise ImportError('of the user')\n")
    done = run_from(outside, checkout, *JOB, *more, "hydra.run.dir=out")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert 0.5 < metrics(outside / "out")["accuracy"] < 1
    assert sorted(path.name for path in outside.iterdir()) == ["analysis", "data", "out"]
    meta = json.loads((outside / "out" / "meta.json").read_text())
    assert meta["job"]["task_fields"]["data_dir"] == "data"  # as it was written, or equal runs would differ
    virtual = run_from(outside, checkout, *JOB, "runtime=virtual", *NOMINAL, *more, "hydra.run.dir=v")
    assert virtual.returncode == 0, virtual.stderr
    ends = [RecordSink(outside / name).notes("Finished")[0]["parameters_sha256"] for name in ("out", "v")]
    assert ends[0] == ends[1]  # BSP is bit-equal, on the same data
