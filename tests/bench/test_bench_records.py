"""Loading a record of events: from its columns and from its log, next to `json.loads` of the same lines.

Every measurement is a fresh process, in turns; processor time and resident memory per iteration. What a process needs
for any record (imports, and a small one loaded before) is left out.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from analysis.records.load import FOLDER, load_run
from analysis.records.stored import store_contents
from tests.support.records import Story, bsp_story
from tests.support.runs import ROOT

from .goals import at_least, at_most
from .report import Report, table
from .test_bench_virtual import play

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

WORKERS, ROUNDS, TURNS = 16, 6_250, 3
LOAD_US, LOAD_BYTES = 1.5, 200
"""Per iteration, at most; issue 18, 5."""
HEAD = """
import gc, json, sys, time
import analysis.measures.metrics, analysis.records.gather, analysis.records.stored
from analysis.records.load import load_run

def resident():
    gc.collect()
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(fields["VmRSS"].split()[0]) * 1024

small, path = sys.argv[1:]
load_run(small).tables
before, begun = resident(), time.process_time()
{}
took = time.process_time() - begun
print(json.dumps([took, resident() - before]))
"""
WAYS = {
    "columns": "found = load_run(path); found.tables",
    "log": "found = load_run(path); found.tables",
    "json.loads": "found = [json.loads(line) for line in open(path + '/events.jsonl', 'rb')]",
}


@pytest.mark.parametrize("strategy", ["asp", "bsp"])
def test_loading_a_record(strategy: str, tmp_path: Path, report: Report) -> None:
    small, stored, bare = bsp_story().write(tmp_path / "small"), tmp_path / "stored", tmp_path / "bare"
    play(strategy, WORKERS, ROUNDS, stored, full=True)
    story = Story(strategy, num_workers=WORKERS, num_samples=WORKERS * ROUNDS, epochs=1)
    (stored / "meta.json").write_text(json.dumps(story.meta))
    (stored / "plan.json").write_text(json.dumps(story.plan))
    store_contents(load_run(small))
    shutil.copytree(stored, bare)
    store_contents(load_run(stored))
    iterations = len(load_run(stored).tables.iterations)

    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(TURNS):
        for way, code in WAYS.items():
            path = stored if way == "columns" else bare
            words = [sys.executable, "-c", HEAD.replace("{}", code), str(small), str(path)]
            seconds, num_bytes = json.loads(subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout)
            found.setdefault(way, []).append((seconds / iterations * 1e6, num_bytes / iterations))
    took = {way: [each for each, _ in rounds] for way, rounds in found.items()}
    use = {way: median(each for _, each in rounds) for way, rounds in found.items()}
    ratio = {way: median(peer / ours for peer, ours in zip(took["json.loads"], took[way], strict=True)) for way in took}
    verdicts = [
        at_most("from columns, us an iteration", median(took["columns"]), LOAD_US, "us"),
        at_most("from columns, resident bytes an iteration", use["columns"], LOAD_BYTES, "B"),
        at_least("json.loads of the lines / from columns", ratio["columns"], 5.0, "x"),
    ]
    files = sum(path.stat().st_size for path in (stored / FOLDER).iterdir()) / iterations
    rows = [[way, f"{median(took[way]):.2f}", f"{use[way]:.0f}", f"{ratio[way]:.2f}"] for way in WAYS]
    more = f"\n{(stored / 'events.jsonl').stat().st_size / iterations:.0f} bytes of log, {files:.0f} of columns"
    report.judge(
        f"loading a record, {strategy}, {iterations:,} iterations",
        verdicts,
        extra=table(["from", "us", "bytes", "json.loads / ours"], rows) + more,
    )
