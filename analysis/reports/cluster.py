"""From the records of clusters to files: the results of one run, and the comparison of several."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.figures.cluster.draw import Drawn, draw_cluster, draw_clusters
from analysis.figures.page import draw_captions
from analysis.files import below, write_below, write_file
from analysis.measures.cluster.comparing import (
    cluster_table,
    cluster_warnings,
    compare_clusters_table,
    paired_jobs,
)
from analysis.measures.cluster.hosts import host_use
from analysis.measures.cluster.jobs import job_times, use_over_time, window
from analysis.measures.cluster.straggling import Straggling, straggling
from analysis.measures.cluster.summary import summarise_cluster
from analysis.measures.warned import warnings_of_jobs
from analysis.measures.warning_lines import stored_warnings
from analysis.records.cluster import Cluster, load_cluster
from analysis.records.load import CLUSTER_EVENTS, RecordError
from analysis.records.log import of_record
from analysis.records.settings import wants_caption
from analysis.records.sums import summed
from analysis.reports.pages.cluster import cluster_page, details, how_it_was_run, runs_section
from analysis.reports.pages.links import back_to_sweep
from analysis.reports.report import json_bytes, parquet_bytes, write_json

BASELINE = "fifo"
STRAGGLER_TABLES = ("stragglers", "episodes", "deviations")


@dataclass(frozen=True, eq=False)
class Results:
    """One run: its record, and what follows from it."""

    cluster: Cluster
    drawn: Drawn
    hosts: pd.DataFrame
    summary: dict[str, Any]


def finish_cluster(path: str | os.PathLike[str], *, draw: bool = True) -> dict[str, Any]:
    """Write ``summary.json``, ``tables/``, ``figures/`` and ``report.html`` of one cluster run into its directory.

    Args:
        path: the run's directory.
        draw: False leaves figures and report out.

    Returns:
        The summary (:func:`analysis.measures.cluster.summary.summarise_cluster`).

    Raises:
        RecordError: the record of the cluster cannot be read. Damaged records of single jobs are left out, and named in
            the summary.
    """
    with of_record(Path(path)), summed(Path(path)):
        done = cluster_results(path)
        for name, content in derived_files(done):
            write_below(done.cluster.path, name, content)
        if draw:
            _draw(done)
    return done.summary


def derived_files(done: Results) -> Iterator[tuple[str, bytes]]:
    """(name, content) of what follows from the record of a set, apart from figures and page."""
    yield "summary.json", json_bytes(done.summary)
    found = done.drawn.found
    tables = {"job_times": done.drawn.times, "use": done.drawn.use, "host_use": done.hosts}
    if found:
        tables |= dict(zip(STRAGGLER_TABLES, (found.jobs, found.episodes, found.deviations), strict=True))
    for name, frame in tables.items():
        yield f"tables/{name}.parquet", parquet_bytes(frame)


def draw_figures(done: Results, folder: Path) -> list[Path]:
    """Draw every figure of a set into ``folder``; returns the PNGs."""
    return draw_cluster(folder, done.cluster, done.drawn, done.hosts)


def _draw(done: Results) -> None:
    root, found = done.cluster.path, done.drawn.found
    with draw_captions(wants_caption(root)):
        figures = draw_figures(done, below(root, "figures"))
    more = details(done.drawn.times, found.episodes if found else None, root) + how_it_was_run(root)
    frame = cluster_frame(done.cluster.meta, done.summary)
    page = cluster_page(frame, [done.cluster.meta], figures, _notes(done), more, back=back_to_sweep(root))
    write_file(root / "report.html", page)


def cluster_frame(meta: dict[str, Any], summary: dict[str, Any]) -> pd.DataFrame:
    """One run's summary as a frame for :func:`analysis.reports.cluster_console.print_clusters`."""
    runs = cluster_table([meta], [summary], [""])
    pairs = pd.DataFrame(columns=["case", "label", "seed", "job", "ratio"]).astype({"ratio": "float64"})
    return compare_clusters_table(runs, pairs)


def compare_clusters(
    paths: Iterable[str | os.PathLike[str]],
    out_dir: str | os.PathLike[str],
    baseline: str | None = None,
    *,
    draw: bool = True,
) -> pd.DataFrame:
    """Compare cluster runs; write ``clusters.csv``, ``clusters.json``, ``job_ratios.csv``, figures and ``report.html``.

    Args:
        paths: directories of cluster runs.
        out_dir: created if missing; files of an earlier comparison are replaced.
        baseline: label that ratios are relative to; None means ``fifo`` or ``bsp`` if present, otherwise the first.
        draw: False leaves figures and report out.

    Returns:
        One row per case and label (:func:`analysis.measures.cluster.comparing.compare_clusters_table`). Its ``attrs``
        hold ``baseline``, ``warnings``, ``skipped``, ``figures`` and ``report`` (paths).

    Raises:
        RecordError: no record can be used, or ``baseline`` is not among them.
    """
    out, done, skipped = Path(out_dir), [], []
    for path in paths:
        try:
            with of_record(Path(path)):
                done.append(_digest(path))
        except RecordError as error:
            skipped.append(str(error))
    if not done:
        raise RecordError("no cluster run to compare: " + ("; ".join(skipped) or "no directory given"))
    metas = [meta for meta, _, _, _ in done]
    runs = cluster_table(metas, [summary for _, summary, _, _ in done], [path for _, _, _, path in done])
    drawn = [each for _, _, each, _ in done]
    times = [each.times for each in drawn]
    base = _baseline(runs, baseline)
    pairs = paired_jobs(times, runs, base)
    table = compare_clusters_table(runs, pairs)
    with summed(out, new=True):
        with draw_captions(all(wants_caption(path) for _, _, _, path in done)):
            figures = draw_clusters(out / "figures", runs, drawn, table, pairs, base) if draw else []
        table.attrs |= {
            "baseline": base,
            "warnings": cluster_warnings(runs, times),
            "skipped": skipped,
            "figures": [str(figure) for figure in figures],
            "report": str(out / "report.html"),
        }
        write_file(out / "clusters.csv", table.to_csv(index=False))
        write_file(out / "job_ratios.csv", pairs.to_csv(index=False))
        facts = {name: table.attrs[name] for name in ("baseline", "warnings", "skipped")}
        rows = {"labels": table.to_dict("records"), "runs": runs.to_dict("records")}
        write_json(out / "clusters.json", {"schema": 1, **facts, **rows})
        notes = [*table.attrs["warnings"], *(f"left out: {reason}" for reason in skipped)]
        if draw:
            write_file(out / "report.html", cluster_page(table, metas, figures, notes, runs_section(runs, out)))
    return table


def cluster_results(path: str | os.PathLike[str], found: Straggling | None = None) -> Results:
    """Return the results of a set's record; ``found``: the stragglers, if known; else all records of jobs are read.

    Raises :class:`RecordError`.
    """
    cluster = load_cluster(path)
    times = job_times(cluster)
    found = found or straggling(cluster)
    drawn = Drawn(cluster.meta, int(cluster.machines["gpus"].sum()), times, use_over_time(cluster, times), found)
    hosts = host_use(cluster, *window(times, cluster.end_s))
    folders = cluster.folders.values() if cluster.meta.get("runtime") == "live" else ()
    return Results(cluster, drawn, hosts, summarise_cluster(cluster, times, found, warnings_of_jobs(folders)))


def _digest(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any], Drawn, Path]:
    """Keep a run's part of a comparison and release its record. A finished run has its stragglers in tables."""
    done = cluster_results(path, _read_stored(Path(path)))
    return done.cluster.meta, done.summary, done.drawn, done.cluster.path


def _read_stored(root: Path) -> Straggling | None:
    """The stragglers as :func:`finish_cluster` wrote them; None if it did not, or the record is newer."""
    paths = [root / "tables" / f"{name}.parquet" for name in STRAGGLER_TABLES]
    log = root / CLUSTER_EVENTS
    if not log.exists() or not all(path.exists() and path.stat().st_mtime >= log.stat().st_mtime for path in paths):
        return None
    return Straggling(*(pd.read_parquet(path) for path in paths))


def _baseline(runs: pd.DataFrame, wanted: str | None) -> str:
    labels = list(dict.fromkeys(runs["label"]))
    if wanted is None:
        return next((name for name in (BASELINE, "bsp") if name in labels), str(labels[0]))
    if wanted not in labels:
        raise RecordError(f"baseline {wanted!r} is not among the runs: {', '.join(labels)}")
    return wanted


def _notes(done: Results) -> list[str]:
    """Return the notes that a reader of one run's report must know."""
    summary, found = done.summary, done.drawn.found
    notes = [one.text for one in stored_warnings(summary)]
    notes += [f"integrity: {problem}" for problem in summary["integrity"]["problems"]]
    notes += [f"not checked: {reason}" for reason in summary["integrity"]["unchecked"]]
    if summary["jobs_completed"] < summary["jobs"]:
        notes.append(f"{summary['jobs'] - summary['jobs_completed']} of {summary['jobs']} jobs did not complete")
    if done.cluster.torn:
        notes.append("the last line of the record is torn: the run was killed")
    if found is None:
        notes.append("no records of single jobs (detail=gpus_only): nothing is known of stragglers")
    else:
        notes += [f"left out: {reason}" for reason in found.unread]
    return notes
