"""Sets of jobs that are over although jobs in them failed: records where an experiment says so, else failures."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from analysis.experiments.cluster_measures import CLUSTER_MEASURES, digest
from analysis.records.load import load_run
from runtime.errors import FAILED, REFUSED, ConfigError
from stragglab.grids.grid import JobFailed, clear, log_of, settle, unfinished_dir
from tests.support.cluster_records import ClusterStory
from tests.unit.analysis.test_fidelity import story


def one_failed(out: Path, *, finished: bool = True) -> None:
    """One of two jobs has failed, or still runs where the record ends; the run's last line says so."""
    clear(out, "run")
    jobs = ClusterStory(gpus=(2,))
    for job, status in (("a", "done"), ("b", "failed")):
        jobs.submit(0.0, job, gpus=1)
        jobs.start(0.0, job, [0], [0])
        if finished or status == "done":
            jobs.end(4.0, job, status)
    jobs.write(unfinished_dir(out, "run"), finished=finished)
    log_of(out, "run").write_text("run.py: 1 of 2 jobs are not done: job b failed\n")


def test_a_set_that_is_over_counts_where_jobs_may_fail(tmp_path: Path) -> None:
    one_failed(tmp_path)
    with pytest.raises(JobFailed, match="1 of 2 jobs are not done: job b failed"):
        settle("run", tmp_path, FAILED)
    found = settle("run", tmp_path, FAILED, failing=True)
    assert found.path == tmp_path / "records" / "run"
    assert CLUSTER_MEASURES["completed_frac"](digest(found)) == 0.5


def test_what_is_refused_or_was_cut_off_is_a_failure_all_the_same(tmp_path: Path) -> None:
    one_failed(tmp_path)
    with pytest.raises(ConfigError, match="1 of 2 jobs"):
        settle("run", tmp_path, REFUSED, failing=True)
    one_failed(tmp_path / "cut", finished=False)
    with pytest.raises(JobFailed, match="1 of 2 jobs"):
        settle("run", tmp_path / "cut", FAILED, failing=True)


def test_a_single_job_that_failed_is_a_failure_all_the_same(tmp_path: Path) -> None:
    clear(tmp_path, "run")
    story("bsp", seed=0, runtime="virtual", epochs=2).write(unfinished_dir(tmp_path, "run"))
    log_of(tmp_path, "run").write_text("run.py: it broke\n")
    with pytest.raises(JobFailed, match="it broke"):
        settle("run", tmp_path, FAILED, failing=True)
    unfinished_dir(tmp_path, "nothing").mkdir()
    log_of(tmp_path, "nothing").write_text("run.py: it broke\n")
    with pytest.raises(JobFailed, match="it broke"):
        settle("nothing", tmp_path, FAILED, failing=True)


def test_an_interruption_between_two_records_of_a_run_leaves_no_half_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for epochs in (1, 2):
        clear(tmp_path, "run")
        story("bsp", seed=0, runtime="virtual", epochs=epochs).write(unfinished_dir(tmp_path, "run"))
        if epochs == 2:
            monkeypatch.setattr(shutil, "rmtree", interrupt)
            with pytest.raises(KeyboardInterrupt):
                settle("run", tmp_path, 0)
        else:
            settle("run", tmp_path, 0)
    assert load_run(tmp_path / "records" / "run").job["epochs"] == 2
    monkeypatch.undo()
    clear(tmp_path, "run")
    assert list((tmp_path / "unfinished").iterdir()) == []


def interrupt(path: Path, **given: Any) -> None:
    raise KeyboardInterrupt
