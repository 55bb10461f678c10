"""The event log: numbered lines, each written whole; what was written stays, whatever kills the writer."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import runtime.record.columns as module
from runtime.record.columns import FLOATS, INTEGERS, IterationWriter
from runtime.record.recorder import Recorder
from strategies.protocol import Compute, Evaluated
from tests.support.runs import ROOT, read_lines


def test_lines_are_numbered(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.note(0.0, "Launched", role="worker", id=0, incarnation=0, pid=17)
    event = Evaluated(t=1.5, version=3, asked_s=1.25, metrics={"accuracy": 0.5})
    recorder.event(1.5, event, [Compute(worker=0, num_samples=8)], 3, 12.3456, {"arrived": 1})
    recorder.event(1.5, event, (), 3, 1.0, None)
    recorder.close()
    launched = {"type": "Launched", "role": "worker", "id": 0, "incarnation": 0, "pid": 17}
    said = {"type": "Evaluated", "t": 1.5, "version": 3, "asked_s": 1.25, "metrics": {"accuracy": 0.5}}
    decided = {"t": 1.5, "kind": "event", "event": said, "version": 3}
    commands = [{"type": "Compute", "worker": 0, "num_samples": 8}]
    assert read_lines(tmp_path) == [
        {"seq": 0, "t": 0.0, "kind": "note", "note": launched},
        {"seq": 1, **decided, "commands": commands, "decide_us": 12.35, "state": {"arrived": 1}},
        {"seq": 2, **decided, "commands": [], "decide_us": 1.0},
    ]


def test_a_record_is_never_overwritten(tmp_path: Path) -> None:
    Recorder(tmp_path).close()
    with pytest.raises(FileExistsError):
        Recorder(tmp_path)


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    program = """
        import sys
        from pathlib import Path
        from runtime.record.recorder import Recorder
        recorder = Recorder(Path(sys.argv[1]))
        for number in range(10_000_000):
            recorder.note(float(number), "Checkpointed", id=number, text="x" * 500)
            if number % 100 == 0:
                print(number, flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        acknowledged = [int(process.stdout.readline()) for _ in range(20)][-1]
        process.kill()
        acknowledged = max([acknowledged, *map(int, process.stdout.read().split())])
    assert process.returncode == -signal.SIGKILL
    lines = read_lines(tmp_path)
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert len(lines) > acknowledged
    data = (tmp_path / "events.jsonl").read_bytes()
    assert data.count(b"\n") in (len(lines), len(lines) + 1)


Columns = dict[str, Any]
ROWS = 1000


def columns(rows: int = ROWS) -> Columns:
    """Values that a smaller type, or a coarser step, would change."""
    noise = np.random.default_rng(1)
    found: Columns = {name: noise.integers(-(2**62), 2**62, rows) for name in INTEGERS}
    found |= {name: 1e5 + noise.random(rows) * 1e-3 for name in FLOATS}
    found["applied_t"][::7] = np.nan
    return found


def written(run_dir: Path, blocks: list[Columns], rows: list[Columns] | None = None) -> Path:
    run_dir.mkdir()
    writer = IterationWriter(run_dir)
    for block in blocks:
        writer.block(block)
    for block in rows or []:
        for row in zip(*(block[name].tolist() for name in (*INTEGERS, *FLOATS)), strict=True):
            writer.row(row)
    writer.close()
    return run_dir / "iterations.parquet"


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    wanted = columns()
    found = pd.read_parquet(written(tmp_path / "run", [wanted]))
    assert list(found) == [*INTEGERS, *FLOATS]
    for name, values in wanted.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)


def test_the_bytes_do_not_depend_on_how_rows_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In groups of 300, here."""
    monkeypatch.setattr(module, "GROUP_ROWS", 300)
    monkeypatch.setattr(module, "PENDING_ROWS", 70)
    whole = columns()
    parts = [{name: values[a:b] for name, values in whole.items()} for a, b in pairwise([0, 1, 299, 950, ROWS])]
    one = written(tmp_path / "one", [whole])
    assert written(tmp_path / "parts", parts).read_bytes() == one.read_bytes()
    assert written(tmp_path / "rows", [], [whole]).read_bytes() == one.read_bytes()
    about = pq.read_metadata(one)
    assert [about.row_group(group).num_rows for group in range(about.num_row_groups)] == [300, 300, 300, 100]
