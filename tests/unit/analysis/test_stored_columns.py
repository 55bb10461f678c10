"""What is stored of a log gives the same run as the log, is used only while it fits, and then nothing else is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

from analysis.measures.metrics import summarise
from analysis.records import stored
from analysis.records.load import FOLDER, RecordError, Run, load_run
from analysis.records.stored import INDEX, store_contents
from analysis.reports.gathering import gather_runs
from tests.support.records import Story, asp_story, backup_story, bsp_story, churn_story, rollback_story


def held_story() -> Story:
    """Two workers, one of which waits for data."""
    story = Story(num_workers=2, num_samples=16, epochs=1)
    story.started()
    story.note(0.0, "Starved", worker=1)
    story.lines[1], story.lines[0] = story.lines[0] | {"seq": 1}, story.lines[1] | {"seq": 0}
    story.lines[1]["commands"] = [{"type": "Compute", "worker": worker, "num_samples": 8} for worker in (0, 1)]
    story.arrived(0.1, 0, 0, [{"type": "Apply", "grads": [0], "weights": [1.0], "lr_scale": 1.0}], compute_s=0.1)
    story.arrived(0.3, 1, 1, [{"type": "Drop", "grads": [1], "requeue": False}], version=0, compute_s=0.1)
    return story


@pytest.fixture(scope="module")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = rollback_story().write(tmp_path_factory.mktemp("stored") / "run")
    store_contents(load_run(path))
    assert is_stored(load_run(path))
    return path


@pytest.fixture
def record(stored_run: Path, tmp_path: Path) -> Path:
    """A record with its columns, by a story with every kind of fate."""
    return shutil.copytree(stored_run, tmp_path / "run")


def is_stored(run: Run) -> bool:
    return run.contents.integrity is not None


def assert_same(got: Run, expected: Run) -> None:
    for name, frame in expected.tables.items():
        pd.testing.assert_frame_equal(getattr(got.tables, name), frame, check_exact=True, obj=name)
    for name in ("status", "end_s", "torn", "finished"):
        assert getattr(got, name) == getattr(expected, name)
    assert got.notable_lines == expected.notable_lines
    assert got.integrity == expected.integrity
    assert np.array_equal(got.contents.held, expected.contents.held)
    assert [tuple(each) for each in got.contents.given_up] == expected.contents.given_up
    assert msgspec.json.encode(summarise(got)) == msgspec.json.encode(summarise(expected))


@pytest.mark.few(2)
@pytest.mark.parametrize("tell", [rollback_story, bsp_story, asp_story, backup_story, churn_story, held_story])
def test_the_run_is_the_same(tell: Callable[[], Story], tmp_path: Path) -> None:
    path = tell().write(tmp_path / "run")
    expected = load_run(path)
    store_contents(load_run(path, check=True))
    got = load_run(path)
    assert (is_stored(expected), is_stored(got)) == (False, True)
    assert_same(got, expected)


@pytest.mark.parametrize("keep", [0, 20])
def test_so_is_one_that_was_killed(keep: int, tmp_path: Path) -> None:
    path = bsp_story().write(tmp_path / "run", keep=keep, torn='{"seq')
    expected = load_run(path)
    store_contents(load_run(path))
    got = load_run(path)
    assert (got.torn, got.status, is_stored(got)) == (True, "killed", True)
    assert_same(got, expected)


def test_notable_lines_are_all_but_arrivals_and_reports_of_servers(record: Path) -> None:
    run = load_run(record)
    plain = [line for line in run.lines if line not in run.notable_lines]
    kinds = {type(line.event or line.note).__name__ for line in plain}
    assert kinds == {"Arrived", "Reported"}
    notable = {type(line.event or line.note).__name__ for line in run.notable_lines}
    assert {"Finished", "Restored", "Evaluated"} <= notable
    story = Story()
    story.started()
    story.arrived(0.1, 0, 0, [{"type": "Wake", "at_s": 1.0, "tag": ""}])
    story.arrived(0.2, 1, 1)
    story.arrived(0.3, 2, 2)
    story.lines[-1]["state"] = {"mode": "asp"}
    found = load_run(story.write(record.parent / "other")).notable_lines
    assert [line.seq for line in found] == [0, 1, 3], "and arrivals with a state or with another command"


def test_the_log_is_not_read(record: Path) -> None:
    """A log of other bytes, with the same size and time, makes no difference until lines are asked for."""
    expected, log = load_run(record).tables, record / "events.jsonl"
    times = (log.stat().st_atime_ns, log.stat().st_mtime_ns)
    log.write_bytes(b"x" * log.stat().st_size)
    os.utime(log, ns=times)
    got = load_run(record)
    pd.testing.assert_frame_equal(got.tables.iterations, expected.iterations)
    with pytest.raises(RecordError, match=r"events.jsonl: byte 0: .* damaged: repeat the run or leave it out"):
        got.notable_lines  # noqa: B018
    with pytest.raises(RecordError, match=r"no run to compare: .*events.jsonl: byte 0: "):
        gather_runs([record])


def test_columns_of_a_copy_are_used_though_its_time_is_another(record: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(record, tmp_path / "copy", copy_function=shutil.copyfile)
    assert (copy / "events.jsonl").stat().st_mtime_ns != (record / "events.jsonl").stat().st_mtime_ns
    assert is_stored(load_run(copy))


def rewritten(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda record: (record / name).write_bytes(change((record / name).read_bytes()))


CHANGES: dict[str, Callable[[Path], object]] = {
    "shorter": rewritten("events.jsonl", lambda data: b"".join(data.splitlines(keepends=True)[:-1])),
    "edited": rewritten("events.jsonl", lambda data: data.replace(b'"loss": 1.0', b'"loss": 2.0')),
    "another job": rewritten("meta.json", lambda data: data.replace(b'"num_samples": 128', b'"num_samples": 129')),
    "cut": rewritten(f"{FOLDER}/iterations.arrow", lambda data: data[:-100]),
    "lost": lambda record: (record / FOLDER / "updates.arrow").unlink(),
    "damaged": rewritten(f"{FOLDER}/{INDEX}", lambda _: b"{"),
    "older": rewritten(f"{FOLDER}/{INDEX}", lambda _: b"{}"),
    "other code": lambda _: None,
}


@pytest.mark.few(2)
@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_fit_is_ignored_and_replaced(change: str, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CHANGES[change](record)
    if change == "other code":
        monkeypatch.setattr(stored, "_code", lambda: "another")
    shutil.copytree(record, record.parent / "bare", ignore=shutil.ignore_patterns(FOLDER))
    expected, got = load_run(record.parent / "bare"), load_run(record)
    assert not is_stored(got)
    assert_same(got, expected)
    store_contents(got)
    assert is_stored(load_run(record))
    assert_same(load_run(record), expected)
