"""The end of a sweep (``python run.py -m ...``): compare its runs, print the table, say where the figures are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import Console


def report_end_of_sweep(folder: Path) -> None:
    """Compare what the directory holds. It never raises: a damaged record is reported and left out."""
    from rich.console import Console  # a run without a table does not wait for this import

    console = Console(highlight=False)
    try:
        report_sweep(folder, console)
    except Exception as error:  # noqa: BLE001 - the runs are done and stored; a report must not fail the sweep
        console.print(f"The sweep could not be compared: {type(error).__name__}: {error}", markup=False)


def report_sweep(folder: Path, console: Console) -> None:
    """Compare the runs below ``folder`` into ``folder/comparison`` and print the result.

    Runs of clusters are compared with each other, in ``folder/comparison_clusters`` if there are others, too.
    """
    from analysis.records.load import find_clusters, find_runs
    from analysis.records.settings import PROGRAM
    from analysis.reports.report import compare, print_summary

    found, clusters = find_runs(folder, of_clusters=False), find_clusters(folder)
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if (path / ".hydra").is_dir() and path not in (*found, *clusters):
            console.print(f"left out: {path}: no record (did the job fail?)", markup=False, soft_wrap=True)
    if not found and not clusters:
        console.print(f"{folder}: no run to compare", markup=False, soft_wrap=True)
    if found:
        table = compare(found, folder / "comparison")
        _print(table, print_summary, console)
        if table["strategy"].nunique() > 1 and table["seeds"].max() > 1:
            verdicts = f"which is faster, with intervals: {PROGRAM} compare {folder}"
            console.print(verdicts, markup=False, soft_wrap=True)
    if clusters:
        from analysis.reports.cluster import compare_clusters
        from analysis.reports.cluster_console import print_clusters

        out = folder / ("comparison_clusters" if found else "comparison")
        _print(compare_clusters(clusters, out), print_clusters, console)


def _print(table: DataFrame, summarise: Callable[[DataFrame, Console], None], console: Console) -> None:
    for reason in table.attrs["skipped"]:
        console.print(f"left out: {reason}", markup=False, soft_wrap=True)
    summarise(table, console)
    for line in (*table.attrs["warnings"], *table.attrs["figures"], table.attrs["report"]):
        console.print(line, markup=False, soft_wrap=True)
