"""An experiment as curves of a held-out metric over time, one per level of an axis (the first seed)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.experiments.results import Results
from analysis.figures.names import shown_name, shown_title
from analysis.figures.page import legend_above, new_page, save, styled
from analysis.figures.style import LINES, Look, level_looks
from analysis.figures.time_axis import time_axis
from analysis.measures import targets
from analysis.records.provenance import caption

METRIC = "loss"


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    drawn, frames = results.spec.figure, []
    same = level_looks(results.spec.axes[drawn.by], drawn.looks)
    look = {name: Look(same[name].colour, LINES[index % 2]) for index, name in enumerate(same)}  # curves may coincide
    found = [(cell, run) for cell, run in results.records.values() if cell.levels[drawn.by] in results.spec.shown]
    panels = list(results.spec.axes[drawn.panels]) if drawn.panels else [None]
    with styled():
        page = new_page(2.9, f"seed {results.spec.seeds[0]}: {caption(results.metas)}")
        for panel, axes in zip(panels, page.subplots(1, len(panels), squeeze=False, sharey=True)[0], strict=True):
            for cell, run in found:
                if panel is not None and cell.levels[str(drawn.panels)] != panel:
                    continue
                curve = targets.scores(run.tables.evaluations, METRIC)
                name = cell.levels[drawn.by]
                axes.plot(
                    curve["asked_s"],
                    curve["value"],
                    color=look[name].colour,
                    linestyle=look[name].line,
                    label=shown_name(name, drawn.names),
                )
                frames.append(curve.assign(**cell.levels))
            axes.set_title("" if panel is None else shown_title(str(drawn.panels), panel, drawn.names))
            time_axis(axes.xaxis, "time")
            axes.grid(visible=True, axis="y")
            if drawn.log:
                axes.set_yscale("log")
        page.axes[0].set_ylabel(drawn.label)
        legend_above(page, page.axes[0].get_legend_handles_labels()[0])
    return save(page, path, pd.concat(frames, ignore_index=True))
