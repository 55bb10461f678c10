"""``:::MLLOG`` lines: the times of steps as MLPerf's submissions of several rounds write them."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from analysis.logs.reading import read_log
from analysis.logs.step_log import LogError, StepLog, without_first
from analysis.reports.whole_steps import whole_steps
from tests.support.runs import ROOT

WARM = 3
"""So many steps are left out in the numbers that others computed."""
PUBLISHED = sorted((ROOT / "tests" / "logs" / "public").glob("mlperf_*.log.gz"))
FETCHED = sorted(Path(folder).rglob("*.txt")) if (folder := os.environ.get("STRAGGLAB_MLPERF")) else []
"""Whole result files of MLPerf Training, of which there are only excerpts here."""


def entry(key: str, value: object, **metadata: object) -> str:
    about = {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": key, "value": value}
    return f":::MLLOG {json.dumps({**about, 'metadata': {'file': 'a.py', 'lineno': 1, **metadata}})}\n"


def read(path: Path, text: str) -> StepLog:
    path.write_text(text)
    return read_log(path)


@pytest.mark.parametrize("path", [*PUBLISHED, *FETCHED], ids=lambda path: path.name)
def test_medians_and_tails_of_submissions_are_what_json_and_numpy_say(path: Path) -> None:
    lines = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode().splitlines()
    values = [json.loads(line.partition(":::MLLOG ")[2])["value"] for line in lines if "tracked_stats" in line]
    seconds = [value[name] for value in values for name in ("train_step_timing", "train_step_time") if name in value]
    log = read_log(path)
    assert log.own_s[:, 0].tolist() == seconds
    assert len(seconds) > 100
    middle, tail = np.median(seconds[WARM:]), np.quantile(seconds[WARM:], 0.95)
    said = whole_steps(without_first(log, WARM))
    assert any(f"the median step takes {middle:.4g} s" in line for line in said)
    assert any(f"95% up to {tail / middle:.3f}," in line for line in said)
    assert any("one rank only" in remark for remark in log.remarks)
    if path in PUBLISHED:  # others computed: GPT-3 on 8,192 GPUs, and Llama 3.1 405B on 2,560 (all three runs)
        assert middle == pytest.approx({"v3": 1.617, "v5": 3.18}[path.name[7:9]], rel=0.005)


@pytest.mark.parametrize(
    ("name", "each"), [("train_step_timing", 1), ("train_step_timing in s", 448.0), ("train_step_time", 4194304)]
)
def test_steps_count_lines_whatever_their_number_counts(name: str, each: float, tmp_path: Path) -> None:
    text = "".join(entry("init_start", None) for _ in range(512)) + entry("global_batch_size", 896)
    text += "".join(entry("tracked_stats", {name: 2.0 + step, "loss": 1.0}, step=each * step) for step in range(30))
    log = read(tmp_path / "a.log", text + entry("tracked_stats", {"throughput": 9.0}))
    assert log.steps == tuple(range(30))
    assert log.own_s[:, 0].tolist() == [2.0 + step for step in range(30)]
    assert log.job["global_batch_samples"] == 896
    assert any("one process of 512" in remark for remark in log.remarks)


def test_what_is_no_number_is_named_with_its_line(tmp_path: Path) -> None:
    stats = {value: entry("tracked_stats", {"train_step_time": value}) for value in (1.0, "fast", -1.0)}
    for line, says in (
        *((stats["fast"], 'train_step_time "fast": must be'), (stats[-1.0], "train_step_time -1.0: must be a number")),
        (entry("global_batch_size", "many"), "global_batch_size many: must be a number"),
        (":::MLLOG {init_start\n", "is no JSON after :::MLLOG"),
    ):
        with pytest.raises(LogError) as caught:
            read(tmp_path / "a.log", stats[1.0] + line)
        assert str(caught.value).startswith(f"{tmp_path / 'a.log'}: line 2: {says}")
