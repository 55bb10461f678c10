"""Nodes, cores, throughput, use of the servers and stalls over time, a column for every cell (one seed)."""

from __future__ import annotations

from pathlib import Path

from analysis.experiments.results import Results
from analysis.figures.elastic import draw_elastic
from analysis.figures.names import shown_name
from analysis.records.provenance import caption


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    names = results.spec.figure.names
    runs = [
        (", ".join(shown_name(level, names) for level in cell.levels.values()), run)
        for cell, run in results.records.values()
    ]
    return draw_elastic(path, runs, f"seed {results.spec.seeds[0]}: {caption(results.metas)}")
