"""Records of before in which iterations were skipped (``Jumped``): they are read, and cannot be run again."""

from __future__ import annotations

import tarfile
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from analysis.measures.metrics import summarise
from analysis.records.jumps import COPY, Jump, iterations_with, updates_with
from analysis.records.load import load_run
from analysis.records.schema import Jumped
from stragglab.vouching.recomposed import check_settings

RECORDS = Path(__file__).parents[2] / "support" / "skipped_iterations.tar.gz"
"""A job of 6 workers that a lab skipped through, as rows (BSP) and as events (SSP)."""


@pytest.mark.parametrize(
    ("kind", "updates", "iterations", "skipped", "samples"),
    [("rows", 150, 900, 768, 57_600), ("events", 1_080, 1_080, 933, 69_120)],
)
def test_a_record_is_sound_and_has_all_iterations(
    kind: str, updates: int, iterations: int, skipped: int, samples: int, tmp_path: Path
) -> None:
    with tarfile.open(RECORDS) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian's Python 3.11.2 has none
        packed.extractall(tmp_path)
    run = load_run(tmp_path / kind)
    summary = summarise(run)
    assert summary["integrity"]["problems"] == []
    assert (summary["iterations"], summary["skipped_iterations"]) == (iterations, skipped)
    assert len(run.tables.updates) == updates
    assert run.tables.updates["samples"].sum() == samples
    assert (run.tables.iterations["grad"] == COPY).sum() == skipped


NOTE = Jumped(seconds=4.0, version=7, updates=4, samples=10, iterations={"0": 4}, since_s=1.5)


def test_copies_are_of_what_was_measured_and_evenly_spread() -> None:
    """The iteration at 1 s was before the last change; those at 2 and 3 s stand for four from 3 to 7 s."""
    t = pd.Series([1.0, 2.0, 3.0])
    columns = dict.fromkeys(("t", "start_s", "issued_s", "applied_t"), t)
    counted = {"iteration": [0, 1, 2], "grad": [0, 1, 2], "samples": 8, "assigned_samples": 8, "staleness": 0}
    rows = pd.DataFrame({**columns, **counted, "worker": 0, "compute_s": [0.1, 0.2, 0.3]})
    found = iterations_with(rows, [Jump(7.0, NOTE)])
    copies = found[found["skipped"]]
    assert copies["t"].tolist() == [3.5, 4.5, 5.5, 6.5]
    assert copies["compute_s"].tolist() == [0.2, 0.3, 0.2, 0.3]
    assert copies["iteration"].tolist() == [3, 4, 5, 6]
    assert copies["applied_version"].tolist() == [4, 5, 6, 7]
    updates = updates_with(pd.DataFrame({"t": [3.0], "version": [3], "samples": [8]}), [Jump(7.0, NOTE)])
    assert updates["version"].tolist() == [3, 4, 5, 6, 7]
    assert updates["samples"].tolist() == [8, 2, 3, 2, 3], "spread evenly"


def test_verify_says_that_it_cannot_be_run_again(tmp_path: Path) -> None:
    (tmp_path / ".hydra").mkdir()
    lines = ["runtime=virtual", "jobs=list", "cluster=star_servers", "backend=none", "replay.detail=measured"]
    (tmp_path / ".hydra" / "overrides.yaml").write_bytes(msgspec.yaml.encode(lines))
    (tmp_path / ".hydra" / "config.yaml").write_text("seed: 0\n")
    check = check_settings(tmp_path, {}, same_code=False)
    assert (check.question, check.verdict) == ("settings", "unchecked")
    assert "replay.detail=measured: iterations are not skipped any more" in check.found
