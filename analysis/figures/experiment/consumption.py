"""Shards processed by each worker, next to its speed (one seed): do fast workers take more?"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from analysis.experiments.measures import consumption, shards_pearson
from analysis.experiments.results import Results
from analysis.figures.names import shown_name
from analysis.figures.page import new_page, save, styled
from analysis.figures.style import Look, level_looks
from analysis.records.provenance import caption


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    by = results.spec.figure.by
    look, shown = level_looks(results.spec.axes[by]), []
    found = [(cell.levels[by], run, consumption(run)) for cell, run in results.records.values()]
    with styled():
        height_in = sum(0.75 + 0.2 * len(frame) for _, _, frame in found)
        page = new_page(height_in, f"seed {results.spec.seeds[0]}: {caption(results.metas)}")
        for (level, run, frame), line in zip(found, page.subplots(len(found), 2, squeeze=False), strict=True):
            ordered = frame.sort_values("samples_per_s", ascending=False).reset_index()
            draw_consumption(line[0], ordered, "shards", look[level])
            draw_consumption(line[1], ordered, "samples_per_s", look[level])
            line[0].set_title(f"{shown_name(level, results.spec.figure.names)}: correlation {shards_pearson(run):.3f}")
            line[0].set_xlabel("shards taken")
            line[1].set_xlabel("own throughput (samples per second)")
            shown.append(ordered.assign(**{by: level}))
    return save(page, path, pd.concat(shown, ignore_index=True))


def draw_consumption(axes: Axes, frame: pd.DataFrame, what: str, look: Look) -> None:
    """Horizontal bars, the fastest worker on top: ``worker`` and the column ``what``."""
    axes.barh(range(len(frame)), frame[what], 0.7, color=look.colour, alpha=0.85, linewidth=0)
    axes.set_yticks(range(len(frame)), [f"worker {worker}" for worker in frame["worker"]])
    axes.set_ylim(len(frame) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x")
