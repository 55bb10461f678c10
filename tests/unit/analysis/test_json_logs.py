"""JSON of other programs than profilers: records of steps with parts, golden values, and weights without times."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.logs.reading import read_log
from analysis.logs.step_log import LogError, StepLog, without_first
from analysis.reports.whole_steps import whole_steps
from tests.support.runs import ROOT

PUBLIC = ROOT / "tests" / "logs" / "public" / "diloco_measured_h8.json.gz"
PARTS = ("compute_time", "sync_blocked", "optimizer_time", "loader_stall")
WARM = 20
"""Steps of the warm-up, as the file says."""


def read(path: Path, content: Any) -> StepLog:
    path.write_text(json.dumps(content))
    return read_log(path)


def records(steps: int = 24, **parts_ms: float) -> dict[str, Any]:
    return {
        "world_size": 4,
        "step_records": [{"step": step, "wall_time_ms": 50.0, **parts_ms} for step in range(steps)],
    }


def test_published_parts_of_steps_are_what_json_and_numpy_say() -> None:
    published = json.loads(gzip.decompress(PUBLIC.read_bytes()))["step_records"]
    whole_ms = np.array([record["wall_time_ms"] for record in published])
    log = read_log(PUBLIC)
    assert log.own_s[:, 0].tolist() == pytest.approx((whole_ms / 1e3).tolist())
    for name in PARTS:
        part_s = log.part_fracs[name][:, 0] * log.own_s[:, 0]
        assert part_s.tolist() == pytest.approx([record[f"{name}_ms"] / 1e3 for record in published])
    blocked = sum(record["sync_blocked_ms"] for record in published[WARM:]) / whole_ms[WARM:].sum()
    assert blocked == pytest.approx(0.395, abs=0.001)
    said = whole_steps(without_first(log, WARM))
    assert any(f"compute_time 60.2%, sync_blocked {blocked:.1%}" in line for line in said)
    assert any("longer steps take more is sync_blocked: transfers" in line for line in said)


def test_published_outer_steps_are_the_slow_ones() -> None:
    """They come every H = 8 steps."""
    published = json.loads(gzip.decompress(PUBLIC.read_bytes()))
    outer = [record["step"] for record in published["step_records"] if record["did_outer_step"]]
    log = without_first(read_log(PUBLIC), WARM)
    slow = [
        step for step, seconds in zip(log.steps, log.own_s[:, 0], strict=True) if seconds > 2 * np.median(log.own_s)
    ]
    assert slow == [step for step in outer if step >= WARM]
    assert any(f"slow steps come every {published['H']} steps ({len(slow)} times)" in line for line in whole_steps(log))


def test_a_part_that_never_changes_was_not_measured_in_the_steps(tmp_path: Path) -> None:
    log = read(tmp_path / "a.json", records(compute_time_ms=20.0))
    assert any("compute_time is the same in every step" in remark for remark in log.remarks)
    assert any("one of 4 ranks" in remark for remark in log.remarks)


@pytest.mark.parametrize("as_list", [True, False])
def test_golden_values_are_times_of_the_iterations_that_have_any(as_list: bool, tmp_path: Path) -> None:
    seconds: list[Any] = ["nan", 1.5, 1.0, 1.0, "nan", 1.25]
    values = seconds if as_list else {str(5 * step): value for step, value in enumerate(seconds)}
    content = {"lm loss": {}, "iteration-time": {"start_step": 0, "end_step": 25, "step_interval": 5, "values": values}}
    log = read(tmp_path / "a.json", content)
    assert log.steps == (5, 10, 15, 25)
    assert log.own_s[:, 0].tolist() == [1.5, 1.0, 1.0, 1.25]
    assert any("2 of 6 iterations have no time" in remark for remark in log.remarks)


GOLDEN = {"iteration-time": {"values": {"1": "nan"}}}
NO_WHOLE = {"step_records": [{"wall_time_ms": 1.0}, {"loss": 1.0}]}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (records(compute_time_ms="long"), "record 0: compute_time_ms long: must be a number"),
        (NO_WHOLE, "record 1: has no wall_time_ms"),
        ({"step_records": [{"wall_time_ms": 1.0, "step": 1.5}]}, "record 0: step 1.5: must be a whole number"),
        (GOLDEN, "has no iteration-time that is a number"),
        ({"iteration-time": {"values": {"x": 1.0}}}, "step x: must be a whole number"),
        ([[{"history": {}, "global_parameter_history": {}}]], "has weights by step, as torchft's"),
        ({"step_records": []}, "is no Chrome trace"),
        ({"a": 1}, "is no Chrome trace"),
    ],
)
def test_what_has_no_times_is_refused_with_the_reason(content: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=says):
        read(tmp_path / "a.json", content)
