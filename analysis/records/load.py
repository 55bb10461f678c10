"""Read the directory of one run (``docs/record.md``) into memory; the only module that opens a record."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from analysis.files import natural
from analysis.records.contents import gather_contents
from analysis.records.log import RecordError as RecordError
from analysis.records.log import of_record, read_whole
from analysis.records.meta import About, Window
from analysis.records.run import FOLDER as FOLDER
from analysis.records.run import LOG as LOG
from analysis.records.run import Contents, Integrity
from analysis.records.run import Run as Run
from reading import Unreadable
from reading.plain import parse_json

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
CLUSTER_EVENTS = "cluster.jsonl"
"""The file that distinguishes the directory of a cluster from a single run's."""


def load_run(path: str | os.PathLike[str], *, check: bool = False) -> Run:
    """Read a run's directory; a torn line at the end of the events is accepted (the run was killed).

    The columns that an earlier analysis stored are used if the log is still the same (:mod:`analysis.records.stored`);
    otherwise the log is read, in one pass.

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
        return Run(path=root, meta=meta, plan=plan, contents=contents(), audit=_audit)


def _audit(run: Run) -> Integrity:
    from analysis.records.integrity import integrity

    return integrity(run)


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
    """Return the content of ``meta.json`` in a run's directory; raises :class:`RecordError`."""
    path = root / "meta.json"
    meta = load_object(path)
    check_kind(path, meta, About)
    return meta


def _load_plan(path: Path) -> pd.DataFrame:
    import pandas as pd

    content = load_object(path)
    rows = content.get("disturbances")
    check_kind(path, rows, list[Window], "disturbances")
    plan = pd.DataFrame(rows, columns=list(Window.__struct_fields__))
    plan.attrs["pattern"] = content.get("pattern")
    return plan


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
