"""From records to files: the results of a single run, and the comparison of several."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from analysis.files import below, write_below, write_file
from analysis.measures.metrics import summarise
from analysis.measures.run_rows import run_rows
from analysis.measures.stats import compare_runs
from analysis.records.load import Run, load_run
from analysis.records.log import of_record
from analysis.records.settings import wants_caption
from analysis.records.stored import store_contents
from analysis.records.sums import summed
from analysis.reports.console import print_summary
from analysis.reports.elastic import decision_files
from analysis.reports.gathering import Gathered, gather_runs, scores_of
from analysis.reports.kept_summary import forget_summary, sums_of, vouch
from analysis.reports.timeline import trace

__all__ = ["compare", "finish_run", "print_summary", "summary_frame"]

MAX_TRACED = 200_000
"""Most iterations for which a run gets a ``timeline.json``: viewers cannot handle more than a million entries."""


def finish_run(path: str | os.PathLike[str], *, draw: bool = True) -> dict[str, Any]:
    """Write ``summary.json``, ``tables/``, ``timeline.json``, ``figures/`` and ``report.html`` of one run.

    They go into its directory; if its nodes changed, ``decisions.csv`` and ``decisions.md``, too.

    Args:
        path: the run's directory.
        draw: False leaves the figures and the page out.

    Returns:
        The summary (:func:`analysis.measures.metrics.summarise`).

    Raises:
        RecordError: the record cannot be read.
    """
    with of_record(Path(path)):
        sums = sums_of(Path(path))
    run = load_run(path, check=True)
    with of_record(run.path), summed(run.path):
        summary = summarise(run)
        store_contents(run)
        forget_summary(run.path)
        for name, content in derived_files(run, summary):
            write_below(run.path, name, content)
        vouch(run, sums)
        if draw:
            _draw(run, summary)
    return summary


def derived_files(run: Run, summary: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """(name, content) of what follows from a run's record, apart from ``columns/``, figures and page."""
    yield "summary.json", json_bytes(summary)
    for name, frame in run.tables.items():
        yield f"tables/{name}.parquet", parquet_bytes(frame)
    if len(run.tables.iterations) <= MAX_TRACED:
        yield "timeline.json", trace(run)
    for name, text in decision_files(run).items():
        yield name, text.encode()


def _draw(run: Run, summary: dict[str, Any]) -> None:
    from analysis.figures.page import draw_captions
    from analysis.figures.single import draw_run
    from analysis.reports.pages.run import run_page

    with draw_captions(wants_caption(run.path)):
        draw_run(run, below(run.path, "figures"))
    write_file(run.path / "report.html", run_page(run, summary))


def summary_frame(summary: dict[str, Any]) -> pd.DataFrame:
    """One run's summary as a frame for :func:`print_summary`."""
    meta = {"job": {"strategy": summary["strategy"]}}
    return compare_runs(run_rows([meta], [summary], [""]))


def compare(
    paths: Iterable[str | os.PathLike[str]], out_dir: str | os.PathLike[str], baseline: str | None = None
) -> pd.DataFrame:
    """Compare runs; write ``comparison.csv``, ``comparison.json``, ``figures/`` and ``report.html`` into ``out_dir``.

    Args:
        paths: directories of runs.
        out_dir: created if missing; files of an earlier comparison are replaced.
        baseline: label of the strategy that times are relative to; None means ``bsp`` if present, otherwise the first.

    Returns:
        One row per case and strategy (:func:`analysis.measures.stats.compare_runs`). Its ``attrs`` hold ``baseline``,
        ``warnings``, ``skipped`` (why a record was left out), ``figures`` and ``report`` (paths).

    Raises:
        RecordError: no record can be used, or ``baseline`` is not among them.
    """
    return write_comparison(gather_runs(paths, baseline), out_dir)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Gathered runs as tables, files and figures."""

    gathered: Gathered

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row for each run (:func:`analysis.measures.run_rows.run_rows`)."""
        return pd.DataFrame(self.gathered.rows)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per case and strategy (:func:`analysis.measures.stats.compare_runs`)."""
        found, table = self.gathered, compare_runs(self.gathered.rows, self.gathered.baseline)
        table.attrs |= {"baseline": found.baseline, "warnings": found.warnings, "skipped": found.skipped}
        return table

    def draw(self, folder: Path) -> list[Path]:
        """Draw every figure of the comparison into ``folder``; returns the PNGs."""
        from analysis.figures.several import draw_comparison

        digests = self.gathered.digests
        metas, scored = [digest.meta for digest in digests], [scores_of(digest) for digest in digests]
        return draw_comparison(folder, metas, self.runs, self.table, scored)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """(name, content) of the comparison's own numbers."""
        yield "comparison.csv", self.table.to_csv(index=False).encode()
        yield "comparison.json", json_bytes(_comparison(self.table, self.runs))


def write_comparison(gathered: Gathered, out_dir: str | os.PathLike[str]) -> pd.DataFrame:
    """Write a comparison of records that have been read, and return what :func:`compare` returns."""
    from analysis.figures.page import draw_captions
    from analysis.reports.pages.comparison import comparison_page

    out, found, metas = Path(out_dir), Comparison(gathered), [digest.meta for digest in gathered.digests]
    table = found.table
    with summed(out, new=True):
        with draw_captions(all(wants_caption(digest.path) for digest in gathered.digests)):
            figures = found.draw(out / "figures")
        table.attrs |= {"figures": [str(figure) for figure in figures], "report": str(out / "report.html")}
        for name, content in found.files():
            write_file(out / name, content)
        write_file(out / "report.html", comparison_page(table, found.runs, metas, out))
    return table


def _comparison(table: pd.DataFrame, runs: pd.DataFrame) -> dict[str, Any]:
    facts = ("baseline", "warnings", "skipped")
    return {
        "schema": 1,
        **{name: table.attrs[name] for name in facts},
        "strategies": table.to_dict("records"),
        "runs": runs.to_dict("records"),
    }


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    """The file of a table."""
    buffer = BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write what :func:`json_bytes` makes of it."""
    write_file(path, json_bytes(content))


def json_bytes(content: dict[str, Any]) -> bytes:
    """Indented JSON; infinite times (flagged by ``_missed``) and missing values are null."""
    return msgspec.json.format(msgspec.json.encode(_finite(content)), indent=1) + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
