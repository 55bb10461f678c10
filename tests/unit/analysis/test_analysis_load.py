"""Records are read as docs/record.md says; anything else is refused with the place and the reason."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from analysis.records import schema
from analysis.records.load import RecordError, Run, find_runs, load_run
from analysis.records.members import numbers_of
from analysis.records.nodes import parse_node
from analysis.records.schema import Other, _decode_parts, decode_line
from analysis.reports.timeline import trace
from strategies import protocol
from strategies.protocol import Arrived, NodeUse, Timings
from tests.support.records import (
    Story,
    apply,
    asp_story,
    bsp_story,
    drop,
    rollback_story,
)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return bsp_story().write(tmp_path / "run")


def edit(path: Path, number: int, text: str | None) -> None:
    """Replace one line (counted from 1) of a file, or take it out."""
    lines = path.read_text().splitlines(keepends=True)
    lines[number - 1 : number] = [text + "\n"] if text is not None else []
    path.write_text("".join(lines))


def test_reads_a_whole_record(record: Path) -> None:
    run = load_run(record)
    assert (run.status, run.torn, run.job["strategy"], len(run.plan)) == ("done", False, "bsp", 1)
    assert [line.seq for line in run.lines] == list(range(len(run.lines)))
    arrived = next(line.event for line in run.lines if isinstance(line.event, Arrived))
    assert (arrived.grad.samples, arrived.timings.compute_s, arrived.loss) == (8, 0.05, 1.0)
    lines = (record / "events.jsonl").read_bytes().splitlines()
    assert [decode_line(line) for line in lines] == [_decode_parts(line) for line in lines], "at once, and by parts"


def test_the_last_line_may_be_torn_or_lack_its_newline(tmp_path: Path) -> None:
    run = load_run(bsp_story().write(tmp_path / "run", keep=9, torn='{"seq":9,"t":0.1,"ki'))
    assert (run.status, run.torn, len(run.lines)) == ("killed", True, 9)
    story = bsp_story()
    run = load_run(story.write(tmp_path / "run", keep=9, torn=json.dumps(story.lines[9])))
    assert (run.torn, len(run.lines)) == (False, 10)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"seq":2,"t":0.0', "truncated"),
        ('{"seq":2,"t":"soon","kind":"note","note":{"type":"Starved","worker":1}}', "Expected `float`, got `str`"),
        ('{"seq":2,"t":0.0,"kind":"note","note":{"type":"Starved"}}', "missing required field `worker`"),
        ('{"seq":2,"t":0.0,"kind":"event","event":{"type":"Woke","tag":"a"}}', "has `event` and `version`"),
        ('{"seq":2,"t":0.0,"kind":"poem"}', 'kind "poem"'),
        ("", "truncated"),
        (None, "seq 3 where 2 is due"),
    ],
)
def test_a_malformed_line_is_refused_with_its_place(record: Path, text: str | None, what: str) -> None:
    edit(record / "events.jsonl", 3, text)
    with pytest.raises(RecordError) as error:
        load_run(record)
    assert "events.jsonl:3: " in str(error.value)
    assert what in str(error.value)


def test_a_newer_vocabulary_still_reads(tmp_path: Path) -> None:
    story = Story()
    story.started()
    story.event(1.0, "Foreseen", [{"type": "Telepathy", "grad": 1}], cpu=0.5)
    story.note(1.0, "Throttled", worker=1)
    run = load_run(story.write(tmp_path / "run"))
    observed, throttled = run.lines[1], run.lines[2]
    assert isinstance(observed.event, Other)
    assert observed.event.fields["cpu"] == 0.5
    assert isinstance(observed.commands[0], Other)
    assert isinstance(throttled.note, Other)
    assert throttled.note.type == "Throttled"


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("meta.json", '{"schema": 9}', "not of schema 1"),
        ("meta.json", '{"schema": 1, "seed": 0, "job": {"strategy": "bsp"}}', "field `num_workers` - at `$.job`"),
        ("plan.json", "{", "damaged"),
        ("plan.json", '{"schema": 1, "disturbances": [{"start_s": 1}]}', "field `end_s` - at `$[0]`"),
        *((name, None, f"{name}: missing") for name in ("meta.json", "plan.json", "events.jsonl")),
    ],
)
def test_a_malformed_head_or_a_missing_file_is_refused(record: Path, name: str, content: str | None, what: str) -> None:
    (record / name).unlink() if content is None else (record / name).write_text(content)
    with pytest.raises(RecordError) as error:
        load_run(record)
    assert what in str(error.value)


def test_runs_are_found_in_natural_order(tmp_path: Path) -> None:
    for name in ("10_ssp", "9_asp", "deep/er/0_bsp"):
        Story().write(tmp_path / name)
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "meta.json").touch()
    names = [str(path.relative_to(tmp_path)) for path in find_runs(tmp_path)]
    assert names == ["9_asp", "10_ssp", "deep/er/0_bsp"]
    assert find_runs(tmp_path / "9_asp") == [tmp_path / "9_asp"]


def test_who_joined_later_has_a_lane_and_who_left_keeps_it(tmp_path: Path) -> None:
    story = bsp_story()
    for version, workers in enumerate(([0, 1], [0, 1, 7], [0, 7])):
        nodes = [f"worker:{worker}" for worker in workers]
        story.note(9.0, "LayoutChanged", version=version, nodes=["server:0", *nodes], shares={"server:0": 1.0})
    run = load_run(story.write(tmp_path / "run"))
    assert {0, 1, 7} <= set(numbers_of(run, "worker"))
    assert b'"worker 7"' in trace(run)


def test_names_of_records_are_read_back() -> None:
    for text in ("worker:12", "server:0", "host:3", "link:2", "link:0>2"):
        assert str(parse_node(text)) == text
    assert parse_node("link:0>2").numbers == (0, 2)
    assert parse_node("link:0-1").numbers == (), "a form of another version"


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


def read(story: Story, path: Path) -> Run:
    return load_run(story.write(path / "run"))


def fates(run: Run) -> dict[str, int]:
    return {str(fate): int(count) for fate, count in run.tables.iterations["fate"].value_counts().items()}


def test_an_iteration_row(tmp_path: Path) -> None:
    row = read(bsp_story(), tmp_path).tables.iterations.iloc[5]
    assert (row["worker"], row["iteration"], row["grad"], row["version_read"]) == (1, 1, 5, 1)
    assert row["t"] == pytest.approx(0.111)
    assert row["iter_s"] == pytest.approx(0.0005 + 0.051 + 0.002)
    assert row["bpt_s"] == pytest.approx(0.0515)
    assert row["start_s"] == pytest.approx(0.0545), "when its last push ended"
    assert row["issued_s"] == pytest.approx(0.0565), "when the round before was applied"
    assert (row["applied_version"], row["applied_t"]) == (2, pytest.approx(0.113))


@pytest.mark.parametrize("name", ["Starved", "Held"])  # the second in older records
def test_a_held_compute_is_issued_when_it_begins_and_not_when_it_is_requested(tmp_path: Path, name: str) -> None:
    story = asp_story()
    for line in story.lines:
        if line.get("note", {}).get("type") == "Starved":
            line["note"] = line["note"] | {"type": name}
    run = read(story, tmp_path)
    assert (run.tables.notes["type"] == name).any()
    rows = run.tables.iterations
    begun = rows["t"] - rows[["pull_s", "data_s", "compute_s", "send_s"]].sum(axis=1)
    assert (rows["issued_s"] - begun).abs().max() < 1e-9


def test_a_rollback_makes_later_updates_void(tmp_path: Path) -> None:
    run = read(rollback_story(), tmp_path)
    updates = run.tables.updates
    assert list(updates["version"]) == [1, 2, 3, 4, 5, 4, 5, 6, 7, 8]
    assert list(updates["version"][updates["void"]]) == [4, 5]
    assert fates(run) == {"applied": 32, "void": 8}
    assert updates.loc[~updates["void"], "samples"].sum() == 2 * 128


def test_commands_are_void_while_a_server_is_gone_and_after_the_end_and_empty_arrivals_are_kept_apart(
    tmp_path: Path,
) -> None:
    story = Story(num_workers=1)
    story.started()
    story.arrived(0.1, 0, 0)
    story.event(0.2, "ServerLost", [apply(0)], server=0, incarnation=0, reason="killed", line_version=0)
    story.event(0.3, "Woke", [drop(0)], tag="x")
    run = read(story, tmp_path)
    assert fates(run) == {"void": 1}
    assert len(run.tables.updates) == 0
    story = Story(num_workers=3)
    story.started()
    story.arrived(0.1, 0, 0)
    story.arrived(0.15, 2, 2, samples=0, assigned_samples=8)
    story.arrived(0.2, 1, 1, [apply(0), apply(1)], line_version=1)
    assert fates(read(story, tmp_path / "end")) == {"applied": 1, "open": 1, "empty": 1}


def test_a_run_of_nothing_has_the_same_columns(tmp_path: Path) -> None:
    empty, full = load_run(Story().write(tmp_path / "empty")).tables, read(asp_story(), tmp_path).tables
    for (name, frame), (_, other) in zip(empty.items(), full.items(), strict=True):
        assert len(frame) == 0
        expected = [column for column in other if column != "accuracy"]
        assert list(frame) == expected, name
        pd.testing.assert_series_equal(frame.dtypes, other.dtypes[expected])
