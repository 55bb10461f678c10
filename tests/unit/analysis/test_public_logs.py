"""Files that other projects have published (tests/logs/public/NOTICE), read by a reader, and by a few lines here."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from analysis.logs.reading import read_log
from analysis.logs.step_log import rounds_s
from tests.support.runs import ROOT

PUBLIC = ROOT / "tests" / "logs" / "public"
TRACES = [path for path in PUBLIC.glob("*.json.gz") if "diloco" not in path.name]
SHORT_LINES = re.compile(r"iteration +(\d+)/ *\d+ \|.*elapsed time per iteration \(ms\): ([\d.]+)")


def seconds_of_trace(path: Path) -> dict[int, float]:
    """By step, as JSON says it."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    steps = [event for event in events if event["name"].startswith("ProfilerStep") and event.get("ph") == "X"]
    steps = [event for event in steps if event.get("cat") != "gpu_user_annotation"]
    return {int(re.sub(r"\D", "", event["name"])): event["dur"] / 1e6 for event in steps}


def seconds_of_output(path: Path) -> dict[int, float]:
    """By iteration; every one is printed."""
    return {int(step): float(ms) / 1e3 for step, ms in SHORT_LINES.findall(path.read_text())}


@pytest.mark.parametrize("path", sorted([*TRACES, *PUBLIC.glob("*.out")]), ids=lambda path: path.name)
def test_a_public_file_has_the_steps_and_times_that_anybody_can_count(path: Path) -> None:
    counted = seconds_of_output(path) if path.suffix == ".out" else seconds_of_trace(path)
    log = read_log(path)
    assert len(log.steps) > 0
    assert dict(zip(log.steps, rounds_s(log).tolist(), strict=True)) == pytest.approx(counted, rel=1e-5)


def test_there_are_files_and_each_is_in_the_notice() -> None:
    names = [path.name for path in PUBLIC.iterdir() if path.name != "NOTICE"]
    assert len(names) == 15
    notice = (PUBLIC / "NOTICE").read_text()
    assert "HolisticTraceAnalysis" in notice
    assert "Copyright (c) 2021, Stas Bekman" in notice
    assert "training_results_v3.1" in notice
