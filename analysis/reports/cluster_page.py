"""Cluster runs as one static, self-contained page: tables, figures and provenance."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.measures.cluster.episodes import CAUSES
from analysis.records.provenance import cluster_caption
from analysis.reports.cluster_console import cluster_columns
from analysis.reports.console import best_rows, number_text
from analysis.reports.webpage import document, figure_html, notes_html, table_html

TITLES = {
    "job_times": "Times of the jobs",
    "job_ratios": "Job by job against the baseline",
    "gpu_use": "GPUs in use, and jobs that wait",
    "hosts": "What every GPU did",
    "host_use": "Use of the hosts",
    "stragglers": "How often, how much and how long workers straggle",
    "straggler_causes": "Why workers straggle",
}
LONGEST = 20
"""Rows of the tables of single jobs and episodes."""


def cluster_page(
    table: pd.DataFrame, metas: Sequence[dict[str, Any]], figures: Sequence[Path], notes: Sequence[str], more: str = ""
) -> str:
    """The whole page.

    Args:
        table: rows of :func:`analysis.measures.cluster.comparing.compare_clusters_table`, ``attrs["baseline"]`` set.
        metas: ``meta.json`` of the runs.
        figures: the PNGs.
        notes: remarks and warnings.
        more: HTML that follows the figures.
    """
    labels = ", ".join(dict.fromkeys(table["label"]))
    tables = "".join(_case(str(case), rows) for case, rows in table.groupby("case", sort=False))
    shown = "".join(figure_html(path, _title(path, len(set(table["case"])) > 1)) for path in figures)
    return document(labels, cluster_caption(metas), f"{tables}{notes_html(notes)}{shown}{more}")


def _case(case: str, rows: pd.DataFrame) -> str:
    shown = cluster_columns(rows)
    best = [best_rows(rows, column) for column in shown]
    heads = [column.head.replace("-\n", "").replace("\n", " ") for column in shown]
    lines = [
        [(column.text(row), number in winners) for column, winners in zip(shown, best, strict=True)]
        for number, (_, row) in enumerate(rows.iterrows())
    ]
    note = (
        "JCT: job completion time, from submission to end; infinite for a job that did not complete. Numbers are "
        "medians over the runs, in brackets 95 % bootstrap intervals. Stragglers: share of iterations where a worker "
        "needed more than 20 % longer than the fastest. Delay: by how much that lengthens them compared with the mean."
    )
    head = f"<h2>{escape(case)}</h2>" if case else ""
    return f'{head}{table_html(heads, lines)}<p class="note">{note}</p>'


def _title(path: Path, cases: bool) -> str:
    name = TITLES.get(path.stem, path.stem.replace("_", " "))
    return f"{name} ({path.parent.name})" if cases else name


def details(times: pd.DataFrame, episodes: pd.DataFrame | None) -> str:
    """Tables of the jobs that were slowed down most and of the episodes that lost most, as HTML."""
    worst = times.sort_values(["slowdown", "jct_s"], ascending=False, kind="stable").head(LONGEST)
    names = ("submit_s", "jct_s", "queue_s", "run_s", "slowdown")
    heads = ["job", "model", "GPUs", *(name.removesuffix("_s") + " s" * name.endswith("_s") for name in names), "ended"]
    asked = ["granted", "refused"] if times[["granted", "refused"]].to_numpy().any() else []
    heads[-1:-1] = asked
    rows = [
        [
            *(row["job"], row["model"], f"{row['gpus']}"),
            *(number_text(row[name], 2) for name in names),
            *(f"{row[name]}" for name in asked),
            row["status"],
        ]
        for _, row in worst.iterrows()
    ]
    parts = [f"<h2>Jobs with the largest slowdown ({len(worst)} of {len(times)})</h2>", table_html(heads, _plain(rows))]
    if episodes is not None and len(episodes):
        parts += _episodes(episodes)
    return "".join(parts)


def _episodes(episodes: pd.DataFrame) -> list[str]:
    worst = episodes.sort_values("lost_s", ascending=False, kind="stable").head(LONGEST)
    heads = ["job", "worker", "host", "from s", "to s", "iterations", "lost s", "deviation %", "cause"]
    heads += ["jobs on its host", "jobs on its servers' hosts"]
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
        table_html(["cause", "episodes", "lost s"], _plain(causes)),
        f"<h2>Episodes that lost most ({len(worst)} of {len(episodes)})</h2>",
        table_html(heads, _plain(rows)),
    ]


def _plain(rows: Sequence[Sequence[str]]) -> list[list[tuple[str, bool]]]:
    return [[(text, False) for text in row] for row in rows]
