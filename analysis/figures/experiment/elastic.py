"""Nodes, cores, throughput, use of the servers and stalls over time, a column for every cell, and a measure as bars."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from analysis.experiments.plotted import numbers_of_figure
from analysis.experiments.results import Results
from analysis.figures.bars import draw_bars
from analysis.figures.elastic import draw_elastic
from analysis.figures.experiment.bars import bar_looks, dots_of, missing_word
from analysis.figures.names import shown_name
from analysis.records.provenance import caption

NOTE = "over time: seed {seed}; bars: median over the seeds, line: 95 % interval (Student's t), dots: runs"


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    spec, drawn = results.spec, results.spec.figure
    runs = [
        (", ".join(shown_name(level, drawn.names) for level in cell.levels.values()), run)
        for cell, run in results.records.values()
    ]
    if not drawn.shows:
        return draw_elastic(path, runs, f"seed {spec.seeds[0]}: {caption(results.metas)}")
    about = f"{NOTE.format(seed=spec.seeds[0])} \N{MIDDLE DOT} {caption(results.metas)}"
    (one,) = drawn.several
    bars = numbers_of_figure(results, one).ours
    named = bars.rename(columns={drawn.by: "strategy", "value": "value_s", "low": "low_s", "high": "high_s"})
    look = bar_looks(spec.shown_levels, drawn.looks)

    def below(axes: Axes) -> None:
        draw_bars(axes, named, dots_of(results, None), look, one.label, missing_word(one.measure))
        axes.set_yticks(range(len(named)), [shown_name(one, drawn.names) for one in named["strategy"]])

    return draw_elastic(path, runs, about, below, bars)
