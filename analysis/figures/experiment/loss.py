"""An experiment as curves of the held-out loss over time, one per level of an axis, with the range over the seeds."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.experiments.plotted import caption_of
from analysis.experiments.results import Results
from analysis.figures.experiment.curves import NOTE, curves_of, draw_curves
from analysis.figures.names import shown_name, shown_title
from analysis.figures.page import label_left, legend_above, new_panels, save, styled
from analysis.figures.style import LINES, Look, level_looks
from analysis.figures.time_axis import time_axis

METRIC = "loss"


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    drawn, frames = results.spec.figure, []
    same = level_looks(results.spec.axes[drawn.by], drawn.looks)
    look = {name: Look(same[name].colour, LINES[index % 2]) for index, name in enumerate(same)}  # curves may coincide
    panels = list(results.spec.axes[drawn.panels]) if drawn.panels else [None]
    with styled():
        page, places = new_panels(2.9, caption_of(results, NOTE), len(panels))
        for panel, axes in zip(panels, places, strict=True):
            frame = curves_of(results, panel, METRIC)
            draw_curves(axes, frame, look, METRIC)
            axes.set_title("" if panel is None else shown_title(str(drawn.panels), panel, drawn.names))
            time_axis(axes.xaxis, "time")
            if drawn.log:
                axes.set_yscale("log")
            frames.append(frame.assign(panel=panel or ""))
        label_left(places, drawn.label)
        keys = places[0].get_legend_handles_labels()[0]
        for key in keys:
            key.set_label(shown_name(str(key.get_label()), drawn.names))
        legend_above(page, keys)
    return save(page, path, pd.concat(frames, ignore_index=True))
