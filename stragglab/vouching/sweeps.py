"""The checks of a sweep's own note: that the jobs it names are there, and ended as it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from analysis.records.either import load_record
from analysis.records.load import RecordError
from analysis.records.settings import MULTIRUN, NOTE
from analysis.reports.vouching import Check, check_sums, names_text
from runtime.run.sweep_note import Ended, Note, read
from runtime.version import with_project


def is_sweep(folder: Path) -> bool:
    """Whether it is the directory of a sweep."""
    return (folder / NOTE).exists() or (folder / MULTIRUN).exists()


def verify_sweep(folder: Path) -> Iterator[Check]:
    """Questions about the directory of a sweep, without the questions about its runs."""
    yield from check_sums(folder)
    note = read(folder)
    if note is None or note.head is None:
        there = (folder / NOTE).exists()
        found = f"{NOTE}: cannot be read" if there else f"no {NOTE}: another launcher of Hydra's started it"
        yield Check("note", "failed" if there else "unchecked", found)
    if note is not None:
        wrong = [f"{NOTE}:{number}: cannot be read" for number in note.damaged]
        wrong += [problem for one in note.ended.values() for problem in _wrong(folder, note, one)]
        unnamed = [
            path.parent.name for path in sorted(folder.glob("*/meta.json")) if path.parent.name not in note.ended
        ]
        wrong += [f"not in {NOTE}: {names_text(unnamed)}"] if unnamed else []
        yield Check("note", "failed" if wrong else "ok", "; ".join(wrong) or f"{len(note.ended)} jobs ended as it says")


def _wrong(folder: Path, note: Note, one: Ended) -> Iterator[str]:
    try:
        record = load_record(folder / one.job)
    except RecordError as error:
        if not one.exit_code:
            yield str(error)
        return
    if (record.status == "done") != (one.exit_code == 0):
        yield f"{one.job}: exit code {one.exit_code}, but its record says {record.status}"
    versions = record.meta.get("versions") or {}
    code = with_project(versions.get("code", ""), versions.get("project", ""))
    if note.head is not None and "code" in versions and code != note.head.code_sha256:
        yield f"{one.job}: is of other code than the sweep"
