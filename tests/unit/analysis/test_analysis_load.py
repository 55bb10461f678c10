"""Records are read as docs/record.md says; anything else is refused with the place and the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.records.load import RecordError, find_runs, load_run
from analysis.records.members import numbers_of
from analysis.records.nodes import parse_node
from analysis.records.schema import Other, _decode_parts, decode_line
from analysis.reports.timeline import trace
from strategies.protocol import Arrived
from tests.support.records import Story, bsp_story


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
