"""Records are read with the strategies' vocabulary, also those that are older than some of its fields."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from analysis.records import schema
from analysis.records.load import load_run
from analysis.records.schema import decode_line
from strategies import protocol
from strategies.protocol import NodeUse, Timings
from tests.support.records import bsp_story

RECORD = (Path(__file__).parents[3] / "docs" / "record.md").read_text()
OLDEST = [
    ("Started", {"workers": [0, 1], "batch_samples": [8, 8], "num_servers": 1}),
    ("Failed", {"worker": 0, "reason": "diverged"}),
    ("Lost", {"worker": 0, "incarnation": 0, "reason": "signal 9", "restarting": True}),
    ("Joined", {"worker": 0, "incarnation": 1}),
    ("ServerLost", {"server": 0, "incarnation": 0, "reason": "signal 9"}),
    ("Restored", {"version": 0, "workers": [0, 1]}),
    ("Evaluated", {"version": 0, "asked_s": 0.0, "metrics": {"accuracy": 0.1}}),
    ("Updated", {"server": 0, "version": 0, "updates": 1, "busy_s": 0.1, "injected_s": 0.0}),
]
"""Events with the fields that the first version wrote. What was added since must have a default."""


@pytest.mark.parametrize(("name", "fields"), OLDEST)
def test_records_of_before_are_read(name: str, fields: dict[str, Any]) -> None:
    line = {"seq": 0, "t": 1.0, "kind": "event", "event": {"type": name, "t": 1.0, **fields}, "version": 0}
    event = decode_line(json.dumps(line).encode()).event
    assert type(event) is getattr(protocol, name)


def test_a_note_about_updates_is_read_like_the_event() -> None:
    fields = dict(OLDEST)["Updated"]
    note = decode_line(json.dumps({"seq": 0, "t": 1.0, "kind": "note", "note": {"type": "Updated", **fields}}).encode())
    assert msgspec.structs.asdict(note.note) == fields
    assert {*schema.Reported.__struct_fields__, "t"} == {*protocol.Updated.__struct_fields__}


def test_null_is_nan_in_what_a_diverged_job_computes_and_refused_elsewhere() -> None:
    evaluated = {
        "type": "Evaluated",
        "t": 1.0,
        "version": 1,
        "asked_s": 1.0,
        "metrics": {"loss": None, "accuracy": 0.1},
    }
    apply = {"type": "Apply", "grads": [1, 2], "weights": [None, 0.5]}
    line = {"seq": 0, "t": 1.0, "kind": "event", "event": evaluated, "commands": [apply], "version": 1}
    found = decode_line(json.dumps(line).encode())
    assert repr((found.event.metrics, found.commands[0].weights)) == "({'loss': nan, 'accuracy': 0.1}, (nan, 0.5))"
    event = {"type": "Joined", "t": 1.0, "worker": None, "incarnation": 0}
    with pytest.raises(msgspec.ValidationError, match="Expected `int`, got `null`"):
        decode_line(json.dumps({"seq": 0, "t": 1.0, "kind": "event", "event": event, "version": 0}).encode())


TABLES = RECORD.partition("\n## tables/\n")[2].partition("\n## ")[0]
ITERATIONS = TABLES.partition("\nThe other tables:\n")[0]


def undescribed(columns: Iterable[str], text: str) -> list[str]:
    """Columns that do not stand in the text as code."""
    return [name for name in columns if f"`{name}`" not in text]


def test_every_column_of_every_table_is_described(tmp_path: Path) -> None:
    """Those of the resources of nodes stand where ``Observed`` is described; metrics have the names of the workload."""
    for values in (Timings, NodeUse, protocol.Observed, protocol.Scored, protocol.Measured, protocol.Scheduling):
        assert [name for name in values.__struct_fields__ if name != "t" and name not in RECORD] == []
    run = load_run(bsp_story().write(tmp_path / "run"))
    known = {*NodeUse.__struct_fields__, run.job["metric"], "loss"}
    for name, frame in run.tables.items():
        rows = [line for line in TABLES.splitlines() if line.startswith(f"| `{name}` |")]
        row = ITERATIONS if name == "iterations" else "".join(rows)
        columns = [column for column in frame.columns if column not in known or name == "iterations"]
        assert undescribed(columns, row) == []
    assert undescribed(["t", "made_up"], TABLES) == ["made_up"]
