"""Read the directory of one run (``docs/record.md``) into memory; the only module that opens a record."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from analysis.files import natural
from analysis.records.log import Log, of_record, read_whole
from analysis.records.log import RecordError as RecordError
from analysis.records.meta import About, Window
from analysis.records.schema import ROWS, Finished, Line
from reading import Unreadable
from reading.plain import parse_json

if TYPE_CHECKING:
    import pandas as pd

    from analysis.records.integrity import Integrity
    from analysis.records.tables import Tables

SCHEMA = 1
CLUSTER_EVENTS = "cluster.jsonl"
"""The file that the directory of a cluster has and that of a single run has not."""
LOG, FOLDER = "events.jsonl", "columns"
"""The log, and the folder of what is derived from it for later loads."""


@dataclass(frozen=True)
class Contents:
    """What is known of a log without its lines: after one pass over it, or as stored by an earlier one.

    ``end_s`` is the time of the last line (0 without any), ``torn``: a last one was cut off. ``places`` of the
    notable lines: where they begin (bytes). ``held`` says of every arrival whether its Compute waited for data;
    ``given_up`` is (t, samples) of gradients that were dropped permanently. Both are empty for a run by rows.
    ``discarded``: gradients that were dropped while their workers held them.
    """

    end_s: float
    torn: bool
    finished: Finished | None
    places: Sequence[int]
    held: Sequence[int]
    given_up: Sequence[tuple[float, int]]
    discarded: int
    make_tables: Callable[[], Tables]
    """The same frames whenever it is called: columns become them, and two runs may share contents."""
    problems: Sequence[str] | None = None
    """What laws its lines break; None: nobody has looked."""
    integrity: Integrity | None = None
    """As stored by an earlier analysis."""
    modified_ns: int = 0
    """When the log was last modified before it was read."""


@dataclass(frozen=True, eq=False)
class Run:
    """One record.

    ``plan`` has a row per disturbance (``start_s``, ``end_s``, ``target``, ``kind``, ``magnitude``; the index is its
    position in the plan).
    """

    path: Path
    meta: dict[str, Any]
    plan: pd.DataFrame
    contents: Contents

    @property
    def job(self) -> dict[str, Any]:
        """The job's description: ``meta["job"]``."""
        return dict(self.meta["job"])

    @property
    def finished(self) -> Finished | None:
        """The note that ends the record, or None for a run that was killed."""
        return self.contents.finished

    @property
    def end_s(self) -> float:
        """Time of the last line; 0 without any."""
        return self.contents.end_s

    @property
    def torn(self) -> bool:
        """Whether the last line was cut off."""
        return self.contents.torn

    @property
    def status(self) -> str:
        """``done``, ``failed``, ``stuck``, ``disk_full``, ``interrupted``, or ``killed`` without a last line."""
        return self.finished.status if self.finished else "killed"

    @property
    def by_rows(self) -> bool:
        """Whether iterations were recorded as rows and not as events (:mod:`analysis.records.rows`)."""
        return (self.path / ROWS).exists()

    @cached_property
    def tables(self) -> Tables:
        """The tidy frames of this run (:mod:`analysis.records.tables`)."""
        return self.contents.make_tables()

    @cached_property
    def integrity(self) -> Integrity:
        """Whether it obeys the laws of the protocol (:mod:`analysis.records.integrity`)."""
        from analysis.records.integrity import integrity

        return integrity(self)

    @cached_property
    def notable_lines(self) -> list[Line]:
        """The lines that say more than an arrival, and what became of which gradient, or how busy a server was.

        These are all other notes and events, and those with state or with commands that are no ``Compute``, ``Apply``
        or ``Drop``: few of a long record. They are read when they are asked for.
        """
        return list(Log(self.path / LOG).at(self.contents.places))

    @cached_property
    def lines(self) -> list[Line]:
        """All lines, as objects: a kilobyte and a half each, so measures use tables and notable lines instead."""
        return [line for lines, _ in Log(self.path / LOG).blocks() for line in lines]


def load_run(path: str | os.PathLike[str], *, check: bool = False) -> Run:
    """Read a run's directory; a torn line at the end of the events is accepted (the run was killed).

    What an earlier analysis has stored of the log is used if the log is still the same
    (:mod:`analysis.records.stored`); otherwise it is read, in one pass.

    Args:
        path: the run's directory.
        check: look in the same pass at what :attr:`Run.integrity` needs, which takes another one otherwise.

    Raises:
        RecordError: a file is missing or malformed.
    """
    from analysis.records.stored import read_contents

    root = Path(path)
    return _load(root, lambda: read_contents(root) or gather_contents(root, check))


def load_afresh(path: str | os.PathLike[str]) -> Run:
    """As :func:`load_run`, but from the log, whatever an earlier analysis has stored, and with what integrity needs."""
    root = Path(path)
    return _load(root, lambda: gather_contents(root, check=True))


def _load(root: Path, contents: Callable[[], Contents]) -> Run:
    with of_record(root):
        meta = load_meta(root)
        plan = _load_plan(root / "plan.json")
        return Run(path=root, meta=meta, plan=plan, contents=contents())


def gather_contents(root: Path, check: bool = False) -> Contents:
    """Read the log of a run's directory; raises :class:`RecordError`."""
    from analysis.records.gather import Gathered
    from analysis.records.integrity import Laws
    from analysis.records.tables import make_tables

    log, gathered = Log(root / LOG), Gathered()
    modified_ns = log.modified_ns()
    rows_path = root / ROWS if (root / ROWS).exists() else None
    laws = Laws(rows_path is not None) if check else None
    for lines, places in log.blocks():
        gathered.add(lines, places)
        if laws is not None:
            laws.take(lines)
    waiting = [gathered]  # until its columns are in tables
    return Contents(
        end_s=gathered.end_s,
        torn=log.torn,
        finished=gathered.finished,
        places=gathered.places,
        held=gathered.history.arrivals.held,
        given_up=gathered.history.given_up,
        discarded=gathered.history.discarded,
        make_tables=cache(of_record(root)(lambda: make_tables(waiting.pop(), rows_path))),
        problems=None if laws is None else laws.problems,
        modified_ns=modified_ns,
    )


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


def load_meta(root: Path) -> dict[str, Any]:
    """What ``meta.json`` of a run's directory says; raises :class:`RecordError`."""
    path = root / "meta.json"
    meta = load_object(path)
    check_kind(path, meta, About)
    return meta


def _load_plan(path: Path) -> pd.DataFrame:
    import pandas as pd

    rows = load_object(path).get("disturbances")
    check_kind(path, rows, list[Window], "disturbances")
    return pd.DataFrame(rows, columns=list(Window.__struct_fields__))


def check_kind(path: Path, content: Any, kind: Any, name: str = "") -> None:
    """Raise :class:`RecordError` unless the content is of this kind."""
    try:
        msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        words = f"{name}: {error}" if name else str(error)
        raise RecordError(f"{path}: {words}. Compare it with docs/record.md") from None


def load_object(path: Path) -> dict[str, Any]:
    """The JSON object of this schema in a file; raises :class:`RecordError` saying what is wrong with the file."""
    try:
        content = parse_json(read_whole(path))
    except Unreadable as error:
        raise RecordError(f"{path}: {error}. The file is damaged: repeat the run or leave it out") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise RecordError(f"{path}: not of schema {SCHEMA}. Use the version of Stragglab that wrote it")
    return content
