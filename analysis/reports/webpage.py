"""A comparison as one static, self-contained page: table, figures and provenance, with no external resources."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.records.provenance import caption
from analysis.reports.console import best_rows, columns, ratio_text

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.87rem; }
th, td { padding: 0.3rem 0.7rem; text-align: right; border-bottom: 1px solid #e4e4e4; white-space: nowrap; }
th { border-bottom: 1.5px solid #444; } .word { text-align: left; } .best { font-weight: 700; }
.wide { overflow-x: auto; } img { max-width: 100%; height: auto; } .note { color: #666; font-size: 0.87rem; }
"""
WORDS = frozenset({"case", "strategy", "run", "ended"})


def page(table: pd.DataFrame, runs: pd.DataFrame, metas: Sequence[dict[str, Any]]) -> str:
    """The whole page. ``table`` carries the ``attrs`` that :func:`analysis.reports.report.compare` gives it."""
    labels = ", ".join(dict.fromkeys(table["strategy"]))
    figures = "".join(figure_html(Path(path)) for path in table.attrs["figures"])
    notes = notes_html([*table.attrs["warnings"], *(f"left out: {reason}" for reason in table.attrs["skipped"])])
    return document(labels, caption(metas), f"{_summary(table)}{notes}{figures}{_runs(runs)}")


def document(title: str, about: str, body: str) -> str:
    """A whole page: its title, where it is from, and its body, which is HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Stragglab: {escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<h1>Stragglab: {escape(title)}</h1><p>{escape(about)}</p>{body}</body></html>\n"
    )


def _summary(table: pd.DataFrame) -> str:
    parts = [_case(str(case), rows) for case, rows in table.groupby("case", sort=False)]
    note = "Times are medians with 95 % bootstrap intervals, ratios medians over seeds of the same plan. Bold: best."
    return "".join(parts) + f'<p class="note">{note}</p>'


def _case(case: str, rows: pd.DataFrame) -> str:
    shown = columns(rows)
    best = [best_rows(rows, column) for column in shown]
    heads = [column.head.replace("-\n", "").replace("\n", " ") for column in shown]
    lines = []
    for number, (_, row) in enumerate(rows.iterrows()):
        cells = [(column.text(row), number in winners) for column, winners in zip(shown, best, strict=True)]
        lines.append([*cells, (ratio_text(row, "tta"), False)])
    head = f"<h2>{escape(case)}</h2>" if case else ""
    return head + table_html([*heads, f"TTA / {rows.attrs['baseline']}"], lines)


def notes_html(lines: Sequence[str], title: str = "Warnings") -> str:
    """A list of remarks under a title; nothing for none."""
    return f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>" if lines else ""


def figure_html(path: Path, title: str = "") -> str:
    """A PNG in the page itself, under ``title`` or the file's name."""
    name = title or path.stem.replace("_", " ")
    data = b64encode(path.read_bytes()).decode()
    return f'<h2>{escape(name)}</h2><img alt="{escape(name)}" src="data:image/png;base64,{data}">'


def _runs(runs: pd.DataFrame) -> str:
    heads = ["run", "case", "strategy", "seed", "ended", "lasted s", "TTA s", "final metric"]
    rows = []
    for row in runs.itertuples():
        tta = "missed" if row.tta_s == float("inf") else f"{row.tta_s:.1f}"
        texts = (row.path, row.case, row.strategy, f"{row.seed}", _ended(row), f"{row.lasted_s:.1f}", tta)
        rows.append([(text, False) for text in (*texts, f"{row.final_metric:.4f}")])
    return "<h2>Runs</h2>" + table_html(heads, rows)


def _ended(row: Any) -> str:
    return str(row.status) if row.completed or row.status != "done" else "time was up"


def table_html(heads: Sequence[str], rows: Iterable[Sequence[tuple[str, bool]]]) -> str:
    """A table of ``rows`` of (text, bold); every text is escaped here. Columns of ``WORDS`` stand at the left."""
    classes = ["word" if head in WORDS else "" for head in heads]
    head = "".join(f'<th class="{c}">{escape(h)}</th>' for c, h in zip(classes, heads, strict=True))
    body = []
    for row in rows:
        cells = zip(classes, row, strict=True)
        body.append("".join(f'<td class="{c}{" best" * bold}">{escape(text)}</td>' for c, (text, bold) in cells))
    lines = "".join(f"<tr>{cells}</tr>" for cells in body)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
