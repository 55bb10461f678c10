"""A comparison takes the kept summary of a record that is as it was analysed, and makes it again of any other."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from analysis.measures.metrics import summarise
from analysis.records.load import FOLDER, RecordError, load_afresh
from analysis.records.sums import code_of
from analysis.reports import gathering, kept_summary
from analysis.reports.gathering import Gathered, gather_runs
from analysis.reports.report import finish_run
from tests.support.records import asp_story, bsp_story


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = bsp_story().write(tmp_path_factory.mktemp("kept") / "bsp")
    finish_run(path, draw=False)
    return path


@pytest.fixture
def record(finished: Path, tmp_path: Path) -> Path:
    """A record with its summary."""
    return shutil.copytree(finished, tmp_path / "bsp")


def facts(gathered: Gathered) -> object:
    return [{name: repr(value) for name, value in row.items()} for row in gathered.rows], gathered.warnings


def test_it_is_read_instead_of_the_log_and_says_the_same(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = asp_story().write(tmp_path / "asp")
    made = gather_runs([bsp_story().write(tmp_path / "again" / "bsp"), other])
    finish_run(other, draw=False)
    monkeypatch.setattr(gathering, "load_run", None)
    kept = gather_runs([record, other])
    for row, same in zip(kept.rows, made.rows, strict=True):
        row["path"] = same["path"]
    assert facts(kept) == facts(made)
    assert [digest.scored for digest in kept.digests] == [None, None]


def test_what_is_drawn_of_it_is_read(record: Path) -> None:
    (digest,) = gather_runs([record]).digests
    (record / FOLDER / "summary.json").unlink()
    (made,) = gather_runs([record]).digests
    assert made.scored is not None
    assert gathering.scores_of(digest).equals(made.scored)
    assert gathering.scores_of(made) is made.scored


@pytest.mark.parametrize("name", ["events.jsonl", "meta.json", "plan.json", "iterations.parquet"])
def test_of_a_record_that_was_changed_it_is_made_again(record: Path, name: str) -> None:
    assert kept_summary.kept_summary(record) == msgspec.json.decode((record / "summary.json").read_bytes())
    with (record / name).open("ab") as file:
        file.write(b"\n")
    assert kept_summary.kept_summary(record) is None
    (digest,) = gather_runs([bsp_story().write(record.parent / "other")]).digests
    assert digest.summary == summarise(load_afresh(record.parent / "other"))


@pytest.mark.parametrize("name", ["summary.json", f"{FOLDER}/summary.json", "plan.json", "[", "code"])
def test_where_a_file_is_missing_or_damaged_or_of_other_code_it_is_made_again(
    record: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "code":
        monkeypatch.setattr(kept_summary, "_code", lambda: "another")
    elif name == "[":
        (record / FOLDER / "summary.json").write_text("[")
    else:
        (record / name).unlink()
    assert kept_summary.kept_summary(record) is None


def test_its_code_is_that_of_measures_and_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kept_summary._code()
    assert kept_summary._code() == before
    for room in ("measures", "records"):
        (folder := tmp_path / room).mkdir()
        (folder / "one.py").write_text("")
        with monkeypatch.context() as patch:
            patch.setattr(getattr(kept_summary, room), "__path__", [str(folder)])
            found = kept_summary._code()
            (folder / "one.py").write_text("x = 1")
            code_of.cache_clear()  # as in another process
            assert len({before, found, kept_summary._code()}) == 3


def test_one_that_was_edited_is_left_out_in_a_line(record: Path, tmp_path: Path) -> None:
    summary = record / "summary.json"
    summary.write_bytes(summary.read_bytes().replace(b'"jct_s": ', b'"jct_s": 1'))
    line = f"{summary}: changed since it was written. Write it again: python run.py figures {record}"
    with pytest.raises(RecordError, match="no run to compare") as told:
        gather_runs([record])
    assert line in str(told.value)
    whole = gather_runs([record, asp_story().write(tmp_path / "asp")])
    assert (whole.skipped, [row["strategy"] for row in whole.rows]) == ([line], ["asp"])
    finish_run(record, draw=False)
    assert gather_runs([record]).skipped == []
