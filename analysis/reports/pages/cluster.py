"""The page of one cluster run, or of several that are compared: tables, figures, the jobs, and where it is from."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.measures.cluster.episodes import CAUSES
from analysis.records.provenance import cluster_caption
from analysis.reports.cluster_console import cluster_columns
from analysis.reports.console import best_rows, number_text, plain
from analysis.reports.pages.document import Link, document, figures_html, notes_html
from analysis.reports.pages.links import address, record_html, run_cell, sweeps_html
from analysis.reports.pages.table import Cell, Head, Place, table_html

TITLES = {
    "job_times": "Times of the jobs",
    "job_ratios": "Job by job against the baseline",
    "gpu_use": "GPUs in use, and jobs that wait",
    "hosts": "What every GPU did",
    "host_use": "Use of the hosts",
    "stragglers": "How often, how much and how long workers straggle",
    "straggler_causes": "Why workers straggle",
}
PLACES: dict[str, Place] = {
    "jobs done": "middle",
    "mean JCT (s)": "always",
    "median JCT (s)": "always",
    "99 % JCT (s)": "middle",
    "mean wait (s)": "middle",
    "makespan (s)": "middle",
    "GPUs in use (%)": "middle",
}
"""Where the page shows the columns of the terminal's table; the ratio ``always``, all others ``more``."""
FILES = {
    "summary.json": "the numbers of this page and more",
    "cluster.jsonl": "every event of the cluster",
    "jobs.parquet": "a row per job",
    "hosts.parquet": "what every host was used for",
    "meta.json": "what ran, where, with which versions",
    "tables/": "columnar tables",
    "figures/": "the figures, each with its numbers as CSV",
    "jobs/": "the record of every job",
}
JOB_HEADS: dict[str, tuple[str, Place]] = {
    "submit_s": ("submitted (s)", "more"),
    "jct_s": ("completion time (s)", "always"),
    "queue_s": ("waited (s)", "middle"),
    "run_s": ("ran (s)", "middle"),
    "slowdown": ("slowdown", "always"),
}
LONGEST = 20
"""Rows of the tables of single jobs and episodes."""


def cluster_page(
    table: pd.DataFrame,
    metas: Sequence[dict[str, Any]],
    figures: Sequence[Path],
    notes: Sequence[str],
    more: str = "",
    *,
    back: Sequence[Link] = (),
) -> str:
    """The whole page.

    Args:
        table: rows of :func:`analysis.measures.cluster.comparing.compare_clusters_table`, ``attrs["baseline"]`` set.
        metas: ``meta.json`` of the runs.
        figures: the PNGs.
        notes: remarks and warnings.
        more: HTML that follows the figures.
        back: pages that it belongs to.
    """
    labels = ", ".join(dict.fromkeys(table["label"]))
    tables = "".join(_case(str(case), rows) for case, rows in table.groupby("case", sort=False))
    cases = len(set(table["case"])) > 1
    about = cluster_caption(metas)
    shown = figures_html(((path, _title(path, cases)) for path in figures), about)
    body = f"{tables}{notes_html(notes)}<h2>Figures</h2>{shown}{more}"
    return document(f"Jobs on a cluster: {labels}", about, body, back=back)


def _case(case: str, rows: pd.DataFrame) -> str:
    shown = cluster_columns(rows)
    best = [best_rows(rows, column) for column in shown]
    heads = [_head(plain(column.head)) for column in shown]
    lines = [
        [Cell(column.text(row), number in winners) for column, winners in zip(shown, best, strict=True)]
        for number, (_, row) in enumerate(rows.iterrows())
    ]
    note = (
        "JCT: job completion time, from submission to end; infinite for a job that did not complete. Numbers are "
        "medians over the runs, in brackets 95 % intervals (Student's t; of a ratio with one seed a bootstrap over its "
        "jobs). Stragglers: share of iterations where a worker needed more than 20 % longer than the fastest. Delay: "
        "by how much that lengthens them compared with the mean."
    )
    head = f"<h2>{escape(case or 'Completion times')}</h2>"
    return f'{head}{table_html(heads, lines)}<p class="note">{note}</p>'


def _head(name: str) -> Head:
    if name == "run":
        return Head(name, kind="word")
    return Head(name, "always" if name.startswith("JCT relative") else PLACES.get(name, "more"))


def _title(path: Path, cases: bool) -> str:
    name = TITLES.get(path.stem, path.stem.replace("_", " "))
    return f"{name} ({path.parent.name})" if cases else name


def details(times: pd.DataFrame, episodes: pd.DataFrame | None, root: Path) -> str:
    """Tables of the most delayed jobs and of the episodes that lost most; ``root``: the run's directory."""
    worst = times.sort_values(["slowdown", "jct_s"], ascending=False, kind="stable").head(LONGEST)
    names = ("submit_s", "jct_s", "queue_s", "run_s", "slowdown")
    asked = ["granted", "refused"] if times[["granted", "refused"]].to_numpy().any() else []
    heads = [Head("job", kind="word"), Head("model", "middle", "word"), Head("GPUs", "middle")]
    heads += [Head(*JOB_HEADS[name]) for name in names]
    heads += [*(Head(name, "more") for name in asked), Head("ended", "middle", "word")]
    rows = [
        [
            *(_job(str(row["job"]), root), row["model"], f"{row['gpus']}"),
            *(number_text(row[name], 2) for name in names),
            *(f"{row[name]}" for name in asked),
            row["status"],
        ]
        for _, row in worst.iterrows()
    ]
    parts = [f"<h2>Jobs with the largest slowdown ({len(worst)} of {len(times)})</h2>", table_html(heads, rows)]
    if episodes is not None and len(episodes):
        parts += _episodes(episodes)
    return "".join(parts)


def _episodes(episodes: pd.DataFrame) -> list[str]:
    worst = episodes.sort_values("lost_s", ascending=False, kind="stable").head(LONGEST)
    heads = [Head("job", kind="word"), Head("worker", "middle"), Head("host", "middle")]
    heads += [Head("from (s)"), Head("to (s)", "middle"), Head("iterations", "more"), Head("lost (s)")]
    heads += [Head("deviation (%)", "middle"), Head("cause", kind="word")]
    heads += [Head("jobs on its host", "more", "text"), Head("jobs on its servers' hosts", "more", "text")]
    rows = [
        [
            *(str(row[name]) for name in ("job", "worker", "host")),
            *(number_text(row[name], 2) for name in ("start_s", "end_s")),
            f"{row['iterations']}",
            number_text(row["lost_s"], 2),
            number_text(row["deviation_frac"] * 100, 0),
            row["cause"],
            row["neighbours"],
            row["server_neighbours"],
        ]
        for _, row in worst.iterrows()
    ]
    by_cause = episodes.groupby("cause").agg(number=("lost_s", "size"), lost_s=("lost_s", "sum"))
    causes = [
        [cause, f"{by_cause.number[cause]}", number_text(by_cause.lost_s[cause], 1)]
        for cause in CAUSES
        if cause in by_cause.index
    ]
    return [
        "<h2>Causes of straggling</h2>",
        table_html([Head("cause", kind="word"), Head("episodes"), Head("lost (s)")], causes),
        f"<h2>Episodes that lost most ({len(worst)} of {len(episodes)})</h2>",
        table_html(heads, rows),
    ]


def _job(name: str, root: Path) -> Cell:
    """A job, and the way to its record if it has one."""
    folder = root / "jobs" / name
    return Cell(name, href=address(folder, root) if folder.is_dir() else "")


def how_it_was_run(root: Path) -> str:
    """The section of one run's page about its command line, its files and its settings."""
    return f"<h2>Record</h2>{record_html(root, FILES)}"


def runs_section(runs: pd.DataFrame, out: Path) -> str:
    """The section of a comparison's page, in ``out``, that leads to every run (a row of ``runs`` each)."""
    heads = [
        Head("run", kind="text"),
        Head("policy", "middle", "word"),
        Head("seed", "middle"),
        Head("ended", kind="word"),
    ]
    rows: list[list[Cell | str]] = [
        [
            run_cell(path, out),
            *(str(row.label), f"{row.seed}", str(row.status)),
        ]
        for row, path in zip(runs.itertuples(), map(Path, runs["path"]), strict=True)
    ]
    return f"<h2>Runs</h2>{sweeps_html(map(Path, runs['path']))}{table_html(heads, rows)}"
