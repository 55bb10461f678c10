"""The pairs of docs/scale.md: files are the named ones, predictions come from the smaller job, the page is written."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from runtime.errors import ConfigError
from scripts.measure import validate_scale
from scripts.measure.validate_scale import OF_PAIRS, Job, fetch, jobs, main, pairs, read_measured, table_of
from tests.support.runs import ROOT

FETCHED = os.environ.get("STRAGGLAB_MLPERF_SCALE")
"""The folder into which the script has fetched the logs."""


def log_of(step_s: float, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    seconds = step_s * (1 + 0.01 * rng.standard_normal(60)) + 0.02 * rng.exponential(size=60)
    rows = [{"key": "global_batch_size", "value": 512}]
    rows += [{"key": "tracked_stats", "value": {"train_step_time": one}} for one in seconds.tolist()]
    return "".join(f":::MLLOG {json.dumps({'time_ms': 1, **row})}\n" for row in rows).encode()


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Logs of three jobs of one cluster, and an index that names them."""
    index = [Job._fields]
    for gpus, run in ((64, 0), (128, 0), (256, 0), (256, 1)):
        content = log_of(640 / gpus, gpus + run)
        path = tmp_path / "web" / "results" / "c0ffee" / f"{gpus}_{run}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        index.append(("A", "GPT-3", str(gpus), "results", "c0ffee", f"{gpus}_{run}.txt", digest))
    with (tmp_path / "index.csv").open("w", newline="") as file:
        csv.writer(file).writerows(index)
    monkeypatch.setattr(validate_scale, "INDEX", tmp_path / "index.csv")
    return tmp_path


def source(published: Path) -> str:
    return (published / "web").as_uri()


def test_a_log_is_fetched_once_and_must_be_the_published_one(published: Path) -> None:
    job, folder = jobs()[0], published / "logs"
    path = fetch(job, folder, source(published))
    assert path.read_bytes() == log_of(10, 64)
    assert fetch(job, folder, "file:///nowhere") == path
    path.write_bytes(b"another")
    with pytest.raises(ConfigError, match=r"64_0\.txt: has SHA-256 .* remove it"):
        fetch(job, folder, source(published))
    path.unlink()
    with pytest.raises(ConfigError, match=r"--source file:///nowhere: .* cannot be fetched .* put the file at"):
        fetch(job, folder, "file:///nowhere")


def test_larger_jobs_are_predicted_from_the_smallest(published: Path) -> None:
    found = list(pairs([read_measured(job, fetch(job, published / "logs", source(published))) for job in jobs()]))
    assert [(pair.small.job.gpus, pair.large.job.gpus) for pair in found] == [(64, 128), (64, 256)]
    pair = found[1]
    assert [one.job.path for one in pair.repeats] == ["256_1.txt"]
    assert len(pair.small.seconds) == 57
    assert pair.causes.size == pair.small.size
    assert pair.large.size.step_s == pytest.approx(2.5, rel=0.02)
    before = pair.expected_s["laws"]
    pair.large.seconds[np.argsort(pair.large.seconds)[-9:]] *= 5  # an outcome changes no prediction
    del pair.__dict__["expected_s"]
    np.testing.assert_array_equal(pair.expected_s["laws"], before)


def test_the_page_and_its_figure_are_written(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_scale, "REPLICAS", (2, 4))
    monkeypatch.setattr(validate_scale, "STEPS", 200)
    (published / "docs" / "images").mkdir(parents=True)
    page = published / "docs" / "scale.md"
    page.write_text((ROOT / "docs" / "scale.md").read_text())
    words = ["--logs", str(published / "logs"), "--source", source(published), "--report", str(page)]
    assert main(words) == 0
    text = page.read_text()
    assert "of 2 pairs the laws" in text.partition(OF_PAIRS[0])[2].partition(OF_PAIRS[1])[0]
    assert "| GPT-3, A | 64 to 256 | " in text
    assert "| 32 | 1.0" in text
    with (page.parent / "images" / "scale.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["then_gpus"] for row in rows] == ["128", "256"]
    assert [len(row["repeats_ms"].split()) for row in rows] == [0, 1]


def test_the_page_lists_what_is_not_explained(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(pairs([read_measured(job, fetch(job, published / "logs", source(published))) for job in jobs()]))
    monkeypatch.setattr(validate_scale, "EXPLAINED", 1e6)
    assert [row.split(" | ")[-1] for row in table_of(found)[2:]] == ["yes |", "yes |"]
    monkeypatch.setattr(validate_scale, "ALWAYS_LISTED", "another")
    assert len(table_of(found)) == 2
    monkeypatch.setattr(validate_scale, "EXPLAINED", 0.0)
    assert [row.split(" | ")[1] for row in table_of(found)[2:]] == ["64 to 128", "64 to 256"]


@pytest.mark.skipif(not FETCHED, reason="needs the logs: STRAGGLAB_MLPERF_SCALE=data/raw/mlperf")
def test_the_laws_hold_for_published_jobs() -> None:
    folder = Path(FETCHED or "")
    found = list(pairs([read_measured(job, fetch(job, folder, "file:///nowhere")) for job in jobs()]))
    assert len(found) == 22
    for pair in found:
        assert pair.distances["laws"] <= pair.best + pair.halves
        if pair.small.job.gpus == 512 and pair.small.job.model == "GPT-3":
            assert abs(pair.error_frac) <= 0.25
