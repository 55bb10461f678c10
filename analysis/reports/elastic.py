"""The decisions of a run whose nodes changed, as a table for people and one for programs."""

from __future__ import annotations

import pandas as pd

from analysis.measures import elastic
from analysis.records.load import Run

HEADS = ("no", "t (s)", "stage", "rule", "changes", "outcome", "numbers")


def decision_files(run: Run) -> dict[str, str]:
    """Contents by file name: ``decisions.csv`` and ``decisions.md``; nothing for a run whose nodes stayed."""
    if not elastic.is_elastic(run):
        return {}
    table = elastic.decisions(run)
    return {"decisions.csv": table.to_csv(index=False), "decisions.md": markdown(table)}


def markdown(table: pd.DataFrame) -> str:
    """The decisions (:func:`analysis.measures.elastic.decisions`) as a Markdown table; numbers as in the figure."""
    rows = [HEADS, ("---",) * len(HEADS)]
    for each in table.itertuples():
        number = str(each.number) if each.number else ""
        rows.append((number, f"{each.t:.1f}", each.stage, each.rule, each.what, each.outcome, each.numbers))
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)
