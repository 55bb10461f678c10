"""Read the directory of one run (``docs/record.md``) into memory; the only module that opens a record."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from analysis.files import natural
from analysis.records.schema import ROWS, Finished, Line, decode_line

if TYPE_CHECKING:
    import pandas as pd

    from analysis.records.history import History
    from analysis.records.tables import Tables

SCHEMA = 1
JOB_KEYS = ("strategy", "num_workers", "num_samples", "metric", "higher_is_better")
CLUSTER_EVENTS = "cluster.jsonl"
"""The file that the directory of a cluster has and that of a single run has not."""
PLAN_COLUMNS = ("start_s", "end_s", "target", "kind", "magnitude")


class RecordError(ValueError):
    """A record that cannot be read: the file and line, what is wrong with it, and what to do."""


@dataclass(frozen=True, eq=False)
class Run:
    """One record.

    ``plan`` has a row per disturbance (``start_s``, ``end_s``, ``target``, ``kind``, ``magnitude``; the index is its
    position in the plan). ``lines`` are those of ``events.jsonl``; ``torn``: the last one was cut off.
    """

    path: Path
    meta: dict[str, Any]
    plan: pd.DataFrame
    lines: list[Line]
    torn: bool = False

    @property
    def job(self) -> dict[str, Any]:
        """The job's description: ``meta["job"]``."""
        return dict(self.meta["job"])

    @cached_property
    def finished(self) -> Finished | None:
        """The note that ends the record, or None for a run that was killed."""
        notes = (line.note for line in reversed(self.lines[-50:]))
        return next((note for note in notes if isinstance(note, Finished)), None)

    @property
    def status(self) -> str:
        """``done``, ``failed``, ``stuck``, ``disk_full``, ``interrupted``, or ``killed`` without a last line."""
        return self.finished.status if self.finished else "killed"

    @property
    def by_rows(self) -> bool:
        """Whether iterations were recorded as rows and not as events (:mod:`analysis.records.rows`)."""
        return (self.path / ROWS).exists()

    @cached_property
    def history(self) -> History:
        """The fate of every gradient (:mod:`analysis.records.history`)."""
        from analysis.records.history import build_history

        return build_history(self.lines)

    @cached_property
    def tables(self) -> Tables:
        """The tidy frames of this run (:mod:`analysis.records.tables`)."""
        from analysis.records.tables import make_tables

        return make_tables(self.lines, self.path / ROWS if self.by_rows else self.history)


def load_run(path: str | os.PathLike[str]) -> Run:
    """Read a run's directory; a torn line at the end of the events is accepted (the run was killed).

    Raises:
        RecordError: a file is missing or malformed.
    """
    root = Path(path)
    meta = _load_meta(root / "meta.json")
    plan = _load_plan(root / "plan.json")
    lines, torn = _load_lines(root / "events.jsonl")
    return Run(path=root, meta=meta, plan=plan, lines=lines, torn=torn)


def find_runs(root: str | os.PathLike[str], *, of_clusters: bool = True) -> list[Path]:
    """Every directory at or below ``root`` that holds ``meta.json`` and ``events.jsonl``, in natural order.

    ``of_clusters``: False leaves out the jobs of clusters (:func:`find_clusters`).
    """
    skipped = frozenset() if of_clusters else frozenset({CLUSTER_EVENTS})
    return _holding(root, {"meta.json", "events.jsonl"}, skipped)


def find_clusters(root: str | os.PathLike[str]) -> list[Path]:
    """Every directory at or below ``root`` that holds the record of a cluster, in natural order."""
    return _holding(root, {"meta.json", CLUSTER_EVENTS}, frozenset())


def _holding(root: str | os.PathLike[str], names: set[str], skipped: frozenset[str]) -> list[Path]:
    found = []
    for folder, below, files in os.walk(root):
        if skipped & set(files):
            below.clear()
        elif names <= set(files):
            found.append(Path(folder))
    return sorted(found, key=lambda path: natural(str(path)))


def _load_meta(path: Path) -> dict[str, Any]:
    meta = load_object(path)
    missing = [key for key in ("runtime", "seed", "job") if key not in meta]
    job = meta.get("job")
    missing += [f"job.{key}" for key in JOB_KEYS if not isinstance(job, dict) or key not in job]
    if missing:
        raise RecordError(f"{path}: {', '.join(missing)} missing. Compare it with docs/record.md")
    return meta


def _load_plan(path: Path) -> pd.DataFrame:
    import pandas as pd

    rows = load_object(path).get("disturbances")
    if not isinstance(rows, list):
        raise RecordError(f"{path}: `disturbances` must be a list. Compare it with docs/record.md")
    for number, row in enumerate(rows):
        missing = [key for key in PLAN_COLUMNS if not isinstance(row, dict) or key not in row]
        if missing:
            raise RecordError(f"{path}: disturbance {number} lacks {', '.join(missing)}. Compare with docs/record.md")
    return pd.DataFrame(rows, columns=list(PLAN_COLUMNS))


def load_object(path: Path) -> dict[str, Any]:
    """The JSON object of this schema in a file; raises :class:`RecordError` saying what is wrong with the file."""
    try:
        content = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        raise RecordError(f"{path}: missing. Is {path.parent} the directory of a run?") from None
    except msgspec.DecodeError as error:
        raise RecordError(f"{path}: {error}. The file is damaged: repeat the run or leave it out") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise RecordError(f"{path}: not of schema {SCHEMA}. Use the version of Stragglab that wrote it")
    return content


def _load_lines(path: Path) -> tuple[list[Line], bool]:
    try:
        text = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        raise RecordError(f"{path}: missing. Is {path.parent} the directory of a run?") from None
    rest = text.pop()
    lines = [_load_line(path, number, line) for number, line in enumerate(text, start=1)]
    torn = False
    if rest:  # no newline at its end: torn, unless only the newline is missing
        try:
            lines.append(decode_line(rest))
        except msgspec.DecodeError:
            torn = True
    _check_sequence(path, lines)
    return lines, torn


def _load_line(path: Path, number: int, line: bytes) -> Line:
    try:
        return decode_line(line)
    except msgspec.DecodeError as error:
        raise RecordError(f"{path}:{number}: {error}. The record is damaged: repeat the run or leave it out") from None


def _check_sequence(path: Path, lines: list[Line]) -> None:
    gap = find_gap(lines)
    if gap is not None:
        what = f"seq {lines[gap].seq} where {gap} is due"
        raise RecordError(f"{path}:{gap + 1}: {what}. Lines are missing or duplicated: repeat the run or leave it out")


def find_gap(lines: list[Line]) -> int | None:
    """Index of the first line whose ``seq`` does not follow the previous line's (the first is 0), or None."""
    if lines and lines[0].seq != 0:
        return 0
    pairs = enumerate(pairwise(lines), start=1)
    return next((index for index, (before, line) in pairs if line.seq != before.seq + 1), None)
