"""A run's summary as its analysis left it, so that a comparison need not read the run again.

``columns/summary.json`` has the SHA-256 of ``summary.json`` and of all that it follows from, and a hash of the code
that made it. It is derived, like what else is in ``columns/``: without it, or if the record or the code is another one,
the summary is made again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from analysis import measures, records
from analysis.files import below, write_below
from analysis.records.load import FOLDER, LOG, RecordError, Run
from analysis.records.schema import ROWS
from analysis.records.settings import PROGRAM
from analysis.records.sums import code_of, sum_of

SOURCES = (LOG, ROWS, "meta.json", "plan.json")
SUMMARY = "summary.json"
NOTE = f"{FOLDER}/{SUMMARY}"


class Note(msgspec.Struct, frozen=True):
    """``columns/summary.json``. ``sums``: SHA-256 of the sources; ``summary``: SHA-256 of the summary."""

    sums: dict[str, str]
    summary: str
    code: str


def sums_of(folder: Path) -> dict[str, str]:
    """SHA-256 of a summary's sources; to be taken before it is read."""
    return {name: found for name in SOURCES if (found := sum_of(folder / name))}


def forget_summary(folder: Path) -> None:
    """Before another summary is written, which the note would call a changed one."""
    (below(folder, FOLDER) / SUMMARY).unlink(missing_ok=True)


def vouch(run: Run, sums: dict[str, str]) -> None:
    """Note that the summary follows from files of these ``sums``; not of a job that never started."""
    if len(run.tables.decisions) and (summary := sum_of(run.path / SUMMARY)):
        write_below(run.path, NOTE, msgspec.json.encode(Note(sums, summary, _code())))


def kept_summary(folder: Path) -> dict[str, Any] | None:
    """The summary of a record that is as it was analysed, by this code; None: it has to be made (again).

    Raises:
        RecordError: the summary is not the one that was kept.
    """
    path = folder / SUMMARY
    try:
        note = msgspec.json.decode((folder / NOTE).read_bytes(), type=Note)
        if note.code != _code() or note.sums != sums_of(folder) or not path.is_file():
            return None
        content = path.read_bytes()
    except (OSError, ValueError):  # ValueError: of msgspec
        return None
    if hashlib.sha256(content).hexdigest() != note.summary:
        raise RecordError(f"{path}: changed since it was written. Write it again: {PROGRAM} figures {folder}")
    return dict(msgspec.json.decode(content))


def _code() -> str:
    """A hash of all that a summary is made by."""
    return code_of(*(Path(room.__path__[0]) for room in (measures, records)))
