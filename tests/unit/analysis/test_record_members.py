"""The nodes of a run are those of its layouts; of an older record, as many as its job says."""

from __future__ import annotations

from pathlib import Path

from analysis.records.load import load_run
from analysis.records.members import numbers_of
from analysis.records.nodes import parse_node
from analysis.reports.timeline import trace
from tests.support.records import bsp_story


def test_an_older_record_has_the_nodes_of_its_job(tmp_path: Path) -> None:
    run = load_run(bsp_story().write(tmp_path / "run"))
    assert numbers_of(run, "worker") == list(range(run.job["num_workers"]))


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
