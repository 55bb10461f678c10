"""Records that are to be compared, read: without pandas where their summaries are kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.figures.names import shown_name
from analysis.measures.run_rows import run_rows, warnings_of
from analysis.records.load import RecordError, load_meta, load_run
from analysis.records.log import of_record
from analysis.reports.kept_summary import kept_summary

if TYPE_CHECKING:
    import pandas as pd

BASELINE = "bsp"


@dataclass(frozen=True, eq=False)
class Digest:
    """The part of a run that a comparison keeps; the events themselves are released."""

    path: Path
    meta: dict[str, Any]
    summary: dict[str, Any]
    scored: pd.DataFrame | None = None
    """None: not read (:func:`scores_of`)."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """Runs that are to be compared: ``rows`` has one each (:func:`analysis.measures.run_rows.run_rows`)."""

    rows: list[dict[str, Any]]
    baseline: str
    skipped: list[str]
    """Why a record was left out."""
    digests: list[Digest]

    @property
    def warnings(self) -> list[str]:
        """Return the reasons why the comparison is unfair or thin."""
        return warnings_of(self.rows, shown_name)


def gather_runs(paths: Iterable[str | os.PathLike[str]], baseline: str | None = None, *, kept: bool = True) -> Gathered:
    """Read records; raises :class:`RecordError` if none can be used, or ``baseline`` is not among them.

    ``kept``: False makes every summary again.
    """
    digests: list[Digest] = []
    skipped: list[str] = []
    for path in paths:
        try:
            with of_record(Path(path)):
                digests.append(_digest(Path(path), kept))
        except RecordError as error:
            skipped.append(str(error))
    if not digests:
        raise RecordError("no run to compare: " + ("; ".join(skipped) or "no directory given"))
    metas, summaries = [digest.meta for digest in digests], [digest.summary for digest in digests]
    rows = run_rows(metas, summaries, [digest.path for digest in digests])
    return Gathered(rows, _baseline(rows, baseline), skipped, digests)


def _digest(path: Path, kept: bool) -> Digest:
    """Return the kept summary, or else the log's; raises :class:`RecordError`."""
    if kept and (summary := kept_summary(path)) is not None:
        return Digest(path, load_meta(path), summary)
    from analysis.measures.metrics import summarise
    from analysis.measures.targets import scores

    run = load_run(path, check=True)
    if not len(run.tables.decisions):
        raise RecordError(f"{path}: the job never started")
    return Digest(path, run.meta, summarise(run), scores(run.tables.evaluations, run.job["metric"]))


def scores_of(digest: Digest) -> pd.DataFrame:
    """The metric of the run over time (:func:`analysis.measures.targets.scores`)."""
    from analysis.measures.targets import scores

    if digest.scored is not None:
        return digest.scored
    return scores(load_run(digest.path).tables.evaluations, digest.meta["job"]["metric"])


def _baseline(rows: Iterable[dict[str, Any]], wanted: str | None) -> str:
    labels = list(dict.fromkeys(str(row["strategy"]) for row in rows))
    if wanted is None:
        return BASELINE if BASELINE in labels else labels[0]
    if wanted not in labels:
        raise RecordError(f"baseline {wanted!r} is not among the strategies: {', '.join(labels)}")
    return wanted
