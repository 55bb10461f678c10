"""A run recorded by rows has the same tables and summary as the same run recorded by events."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from analysis.measures.metrics import summarise
from analysis.records.integrity import integrity
from analysis.records.jumps import COPY, Jump, iterations_with, updates_with
from analysis.records.load import Run, load_run
from analysis.records.schema import Jumped
from runtime.config.parse import parse
from runtime.run.checks.job import check_job
from runtime.run.job import run_job
from stragglab.vouching.recomposed import check_settings
from tests.unit.run.test_preflight import composed

LINE = (
    "runtime=virtual backend=none backend.progress=digits_mlp strategy={} draw=false view=none max_time_s=60 "
    "workload.global_batch_samples=64"
)
NOT_IN_ROWS = ("loss", "issued_s", "start_s")
NOT_ALIKE = ("run_id", "decide_p50_us", "decide_p99_us", "decide_frac", "integrity", "staleness")


def made(run_dir: Path, strategy: str, record: str) -> Run:
    [(_, raw)] = composed(LINE.format(strategy) + f" record={record}")
    assert run_job(check_job(parse(raw)), run_dir).exit_code == 0
    return load_run(run_dir)


@pytest.fixture(scope="module", params=["ssp", pytest.param("backup_workers", marks=pytest.mark.long)])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    directory = tmp_path_factory.mktemp("rows")
    return tuple(made(directory / record, request.param, record) for record in ("events", "iterations"))  # type: ignore


def test_the_tables_and_the_summary_are_the_same(pair: tuple[Run, Run]) -> None:
    events, rows = pair
    assert (events.by_rows, rows.by_rows) == (False, True)
    for name in ("iterations", "updates", "evaluations"):
        expected, got = getattr(events.tables, name), getattr(rows.tables, name)
        if name == "iterations":
            expected = expected[expected["fate"].isin(["applied", "dropped"])]
            expected, got = (frame.sort_values("grad", ignore_index=True) for frame in (expected, got))
            assert np.allclose(got["start_s"], expected["start_s"])
        columns = [column for column in expected.columns if column not in (*NOT_IN_ROWS, "lr_scale")]
        pd.testing.assert_frame_equal(got[columns], expected[columns], check_dtype=False, check_exact=True)
    expected, got = map(summarise, pair)
    assert plain(got) == plain(expected)
    assert got["staleness_max"] == expected["staleness_max"]


def plain(summary: dict[str, Any]) -> dict[str, Any]:
    return {
        key: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
        for key, value in summary.items()
        if key not in NOT_ALIKE and not isinstance(value, dict | list)
    }


def test_rows_of_an_older_record_lack_what_was_not_recorded_then(pair: tuple[Run, Run], tmp_path: Path) -> None:
    """Up to 2026-11 there were neither ``recv_s`` nor ``cpu_s``, and no note of the layout."""
    rows = pair[1]
    shutil.copytree(rows.path, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("columns"))
    table = pq.read_table(rows.path / "iterations.parquet")
    pq.write_table(table.drop_columns(["recv_s", "cpu_s"]), tmp_path / "iterations.parquet")
    events = tmp_path / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines() if "LayoutChanged" not in line]
    events.write_text("".join(f"{json.dumps({**line, 'seq': seq})}\n" for seq, line in enumerate(lines)))
    older = load_run(tmp_path)
    assert older.tables.iterations[["recv_s", "cpu_s"]].isna().all(axis=None)
    same = rows.tables.iterations.columns.difference(["recv_s", "cpu_s"])
    pd.testing.assert_frame_equal(older.tables.iterations[same], rows.tables.iterations[same])
    assert plain(summarise(older)) == plain(summarise(rows))


def test_what_a_lost_server_undoes_is_void(tmp_path: Path) -> None:
    """Rows are written when gradients are applied: that it was undone, only the log says. Of gradients that were not
    applied there is no row."""
    words = "asp straggler=kill straggler.targets=[server:0] straggler.mean_s=15 checkpoint_every_s=5"
    events, rows = (made(tmp_path / record, words, record) for record in ("events", "iterations"))
    expected, got = events.tables.iterations, rows.tables.iterations
    expected = expected[expected["applied_version"].notna() | (expected["fate"] == "dropped")]
    columns = ["grad", "fate", "applied_version", "applied_t", "samples"]
    one, other = (frame.sort_values("grad", ignore_index=True)[columns] for frame in (expected, got))
    pd.testing.assert_frame_equal(other, one, check_dtype=False)
    assert (one["fate"] == "void").sum() > 10
    pd.testing.assert_frame_equal(
        rows.tables.updates.drop(columns="lr_scale"), events.tables.updates.drop(columns="lr_scale"), check_dtype=False
    )
    assert integrity(rows).ok


def test_rows_are_checked(pair: tuple[Run, Run], tmp_path: Path) -> None:
    rows = pair[1]
    assert integrity(rows).ok
    shutil.copytree(rows.path, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("columns"))
    table = pq.read_table(rows.path / "iterations.parquet")
    pq.write_table(table.slice(0, len(table) - 1), tmp_path / "iterations.parquet")
    assert any("samples applied" in problem for problem in integrity(load_run(tmp_path)).problems)
    double = table.set_column(2, "grad", [[*table["grad"].to_pylist()[:-1], table["grad"][0].as_py()]])
    pq.write_table(double, tmp_path / "iterations.parquet")
    assert any("twice" in problem for problem in integrity(load_run(tmp_path)).problems)


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
