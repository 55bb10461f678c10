"""The page of a comparison (of a sweep, an experiment, any runs): tables, figures, and the way to every run."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.figures.names import shown_name
from analysis.figures.style import colour_of
from analysis.records.provenance import caption
from analysis.reports.columns import relative
from analysis.reports.console import (
    MARKED,
    WORDS,
    Column,
    best_rows,
    columns,
    mark_warned,
    number_text,
    plain,
    ratio_text,
)
from analysis.reports.pages.document import Link, document, figures_html, notes_html, sections_html
from analysis.reports.pages.links import run_cell, sweeps_html
from analysis.reports.pages.table import Cell, Head, Place, table_html

MOST_NAMED = 4
"""A title with more strategies says how many they are."""
PLACES: dict[str, Place] = {
    "JCT (s)": "always",
    "TTA (s)": "always",
    "seeds": "more",
    "updates": "more",
    "staleness mean (max)": "more",
    "gradients dropped (%)": "more",
    "median BPT (ms)": "more",
}
"""Where the page shows the columns of the terminal's table; the ratio of JCT ``always``, all others ``middle``."""
READING = (
    "Times are medians over the runs with 95 % intervals (Student's t), ratios medians over seeds of the same plan "
    "with theirs. Times to accuracy that differ by less than their error are not distinguished. A dash: never reached. "
    f"Bold: best. A click on a head sorts. {WORDS}"
)
SECTIONS = [Link("#strategies", "Strategies"), Link("#figures", "Figures"), Link("#runs", "Runs")]


def comparison_page(table: pd.DataFrame, runs: pd.DataFrame, metas: Sequence[dict[str, Any]], out: Path) -> str:
    """The whole page, for the directory ``out``.

    Args:
        table: carries the ``attrs`` that :func:`analysis.reports.report.compare` gives it.
        runs: a row per run (:func:`analysis.measures.stats.run_table`).
        metas: ``meta.json`` of the runs.
        out: where the page will be; links are relative to it.
    """
    labels = [shown_name(label) for label in dict.fromkeys(table["strategy"])]
    title = ", ".join(labels) if len(labels) <= MOST_NAMED else f"{len(labels)} strategies compared"
    notes = notes_html([*table.attrs["warnings"], *(f"left out: {reason}" for reason in table.attrs["skipped"])])
    about = caption(metas)
    figures = figures_html(((Path(path), "") for path in table.attrs["figures"]), about)
    body = f'<section id="strategies">{_summary(table)}</section>{notes}<section id="figures"><h2>Figures</h2>{figures}'
    body += f'</section><section id="runs">{_runs(runs, out)}</section>'
    return document(title, about, body, lead=sections_html(SECTIONS))


def _summary(table: pd.DataFrame) -> str:
    parts = [_case(str(case), rows) for case, rows in table.groupby("case", sort=False)]
    reading = f"{READING} {MARKED}" if table["warned"].any() else READING
    return f'<h2>Strategies</h2>{"".join(parts)}<p class="note">{reading}</p>'


def _case(case: str, rows: pd.DataFrame) -> str:
    shown = _columns(rows)
    best = [best_rows(rows, column) for column in shown]
    heads = [_head(column.head) for column in shown]
    lines = [
        [
            _name(row["strategy"], row["warned"])
            if column.head == "strategy"
            else Cell(column.text(row), number in winners)
            for column, winners in zip(shown, best, strict=True)
        ]
        for number, (_, row) in enumerate(rows.iterrows())
    ]
    return (f"<h3>{escape(case)}</h3>" if case else "") + table_html(heads, lines)


def _columns(rows: pd.DataFrame) -> list[Column]:
    """The terminal's columns, ratios with their intervals, the columns that a phone shows first."""
    baseline, found = rows.attrs.get("baseline"), []
    for column in columns(rows):
        name = plain(column.head)
        if not name.startswith("JCT relative"):
            found.append(column._replace(head=name))
        if (
            name in ("JCT (s)", "TTA (s)")
            and baseline
            and len(rows) > 1
            and rows[f"{name[:3].lower()}_ratio"].notna().any()
        ):
            found.append(_ratio(name[:3], str(baseline)))
    order: list[Place] = ["always", "middle", "more"]
    return sorted(found, key=lambda column: order.index(_head(column.head).place))


def _ratio(name: str, baseline: str) -> Column:
    return Column(relative(name, shown_name(baseline)), lambda row: ratio_text(row, name.lower()))


def _head(name: str) -> Head:
    if name == "strategy":
        return Head(name, kind="word")
    return Head(name, "always" if name.startswith("JCT relative") else PLACES.get(name, "middle"))


def _name(label: str, warned: int) -> Cell:
    return Cell(mark_warned(shown_name(label), warned), colour=colour_of(label))


def _runs(runs: pd.DataFrame, out: Path) -> str:
    cases = bool((runs["case"] != "").any())
    heads = [Head("run", kind="text"), *([Head("case", "middle", "text")] if cases else [])]
    heads += [Head("strategy", "middle", "word"), Head("seed", "middle"), Head("ended", "middle", "word")]
    heads += [Head("lasted (s)"), Head("time to target (s)"), Head("final metric", "middle")]
    rows = [_run(row, out, cases) for row in runs.itertuples()]
    return f"<h2>Runs</h2>{sweeps_html(map(Path, runs['path']))}{table_html(heads, rows)}"


def _run(row: Any, out: Path, cases: bool) -> list[Cell | str]:
    tta = "\N{EM DASH}" if row.tta_s == float("inf") else number_text(row.tta_s, 1)
    texts = [f"{row.seed}", _say_end(row), f"{row.lasted_s:.1f}", tta, number_text(row.final_metric, 4)]
    return [
        run_cell(Path(row.path), out),
        *([str(row.case)] if cases else []),
        _name(str(row.strategy), len(row.warnings)),
        *texts,
    ]


def _say_end(row: Any) -> str:
    return str(row.status) if row.completed or row.status != "done" else "time was up"
