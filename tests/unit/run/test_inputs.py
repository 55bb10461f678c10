"""Files that a job reads: if one has changed, a sweep that continues runs the job again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from predictors.fitted_file import FITTED
from runtime.fitted import ROOT
from runtime.run import inputs as inputs_module
from runtime.run.inputs import inputs_of
from runtime.run.preflight import preflight

if TYPE_CHECKING:
    from runtime.run.checking import Checked

JOB = ("runtime=virtual", "workload=ledger", "backend=numpy", "workload.target=null")


def checked(*words: str) -> tuple[Checked, dict[str, Any]]:
    jobs = preflight(list(words)).jobs
    composed, job = jobs.pending[0]
    return job, dict(composed.raw)


def inputs(*words: str) -> list[str]:
    return inputs_of(*checked(*words))


def weights(path: Path, command: str) -> tuple[str, ...]:
    with np.load(FITTED / "deviation.npz") as arrays:
        np.savez(path, **{**{name: arrays[name] for name in arrays.files}, "command": command})
    return ("strategy=star_h", "strategy.predictor=lstm_ratio", f"++strategy.predictor_settings.weights={path}")


def costs(path: Path, values: str) -> tuple[str, ...]:
    path.write_text(f"schema: 1\nvalues: {{compute_base_s: {values}}}\n")
    return (f"cluster.costs={path}", "straggler=none")


def trace(path: Path, magnitude: str) -> tuple[str, ...]:
    path.write_text(f"time,duration,target,kind,magnitude\n1,1,worker:0,delay,{magnitude}\n")
    return ("straggler=trace", f"straggler.path={path}")


def listed(path: Path, gpus: str) -> tuple[str, ...]:
    path.write_text(f"- {{job: a, submit_s: 0, gpus: {gpus}, iterations: 5}}\n")
    return ("jobs=list", "cluster=star_servers", "jobs.entries=[]", f"jobs.path={path}")


def models(path: Path, batch: str) -> tuple[str, ...]:
    text = (ROOT / "models" / "star.yaml").read_text()
    assert "batch_samples: 128" in text
    path.write_text(text.replace("batch_samples: 128", f"batch_samples: {batch}"))
    jobs = "jobs.entries=[{job: a, submit_s: 0, gpus: 2, iterations: 5, model: resnet20}]"
    return ("jobs=list", "cluster=star_servers", "workload=digits", "backend=none", jobs, f"replay.models={path}")


def progress(path: Path, comment: str) -> tuple[str, ...]:
    path.write_text(f"# {comment}\n{(ROOT / 'progress' / 'digits_mlp.yaml').read_text()}")
    return ("workload=digits", "backend=none", f"backend.progress={path}")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("write", "name", "before", "after"),
    [
        (weights, "mine.npz", "once", "again"),
        (costs, "mine.yaml", "0.1", "0.2"),
        (trace, "mine.csv", "1", "2"),
        (listed, "jobs.yaml", "2", "3"),
        (models, "table.yaml", "128", "64"),
        (progress, "mine.yaml", "once", "again"),
    ],
)
def test_a_file_that_has_changed_makes_it_another_job(
    write: object, name: str, before: str, after: str, tmp_path: Path
) -> None:
    assert callable(write)
    words = write(tmp_path / name, before)
    first = inputs(*JOB, *words)
    assert inputs(*JOB, *words) == first
    write(tmp_path / name, after)
    assert inputs(*JOB, *words) != first


def test_who_starts_tasks_and_what_is_shown_change_no_result(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    words = costs(file, "0.1")
    first = inputs(*JOB, *words)
    file.write_text(f"# {'another comment' * 9}\n{file.read_text()}")
    assert inputs(*JOB, *words) == first, "nor does a comment of a cost model"
    job, raw = checked(*JOB, "straggler=none")
    before = inputs_of(job, raw)
    token = tmp_path / "a.token"
    token.write_text("secret")
    for section in ("launcher", "names", "caption"):
        assert inputs_of(job, raw | {section: {"file": str(token)}}) == before
    assert inputs_of(job, raw | {"runtime": raw["runtime"] | {"launcher": {"token_file": str(token)}}}) == before
    assert inputs_of(job, raw | {"scheduler": {"file": str(token)}}) != before


def test_a_file_that_cannot_be_read_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, raw = checked(*JOB[:1], *progress(tmp_path / "mine.yaml", "closed"))
    monkeypatch.setattr(inputs_module, "_costs_sha256", str)

    def closed(file: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", closed)
    assert any(line.endswith("mine.yaml permission denied") for line in inputs_of(job, raw))
