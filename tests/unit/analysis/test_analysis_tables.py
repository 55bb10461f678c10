"""What became of every gradient, and the frames that say so."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.records.load import Run, load_run
from tests.support.records import (
    Story,
    apply,
    asp_story,
    bsp_story,
    drop,
    rollback_story,
)


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
