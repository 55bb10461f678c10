"""A slow server over time: seconds per update of every server, and the job's throughput (one seed)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from analysis.experiments.measures import server_rates, throughput_over_time
from analysis.experiments.results import Results
from analysis.figures.experiment.workers import events
from analysis.figures.names import shown_name
from analysis.figures.page import legend_above, new_page, save, styled
from analysis.figures.style import FAINT, level_looks
from analysis.figures.time_axis import time_axis
from analysis.measures.metrics import jct_s
from analysis.records.provenance import caption

BINS = 80


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    by = results.spec.figure.by
    look = level_looks(results.spec.axes[by])
    shown = []
    with styled():
        page = new_page(4.4, f"seed {results.spec.seeds[0]}: {caption(results.metas)}")
        above, below = page.subplots(2, 1, sharex=True)
        for cell, run in results.records.values():
            level = cell.levels[by]
            rates = bin_rates(server_rates(run), jct_s(run))
            speed = throughput_over_time(run, BINS)
            draw_rates(above, rates, look[level].colour, shown_name(level, results.spec.figure.names))
            below.plot(speed["t"], speed["samples_per_s"], color=look[level].colour)
            for mark in events(run).itertuples():
                style = ":" if mark.what.endswith("Lost") else "-"
                for axes in (above, below):
                    axes.axvline(mark.t, color=FAINT, linewidth=0.8, linestyle=style, zorder=0)
            shown += [rates.assign(system=level), speed.assign(system=level)]
        above.set_ylabel("time per update of a server (s)")
        below.set_ylabel("samples per second")
        time_axis(below.xaxis, "time since the start of the job")
        legend_above(page, above.get_legend_handles_labels()[0])
        for axes in (above, below):
            axes.set_ylim(bottom=0.0)
            axes.grid(visible=True, axis="y")
    return save(page, path, pd.concat(shown, ignore_index=True))


def bin_rates(rates: pd.DataFrame, end_s: float, bins: int = BINS) -> pd.DataFrame:
    """``server``, ``t`` (middle of a bin), ``bpt_s`` (mean in the bin)."""
    width = end_s / bins
    place = (rates["t"] // width).clip(upper=bins - 1) if width > 0 else rates["t"] * 0
    means = rates.groupby(["server", place.rename("bin")])["bpt_s"].mean().reset_index()
    return means.assign(t=(means["bin"] + 0.5) * width).drop(columns="bin")


def draw_rates(axes: Axes, rates: pd.DataFrame, colour: str, label: str) -> None:
    """The slowest server in colour, the others' mean in grey: ``server``, ``t``, ``bpt_s``."""
    if rates.empty:
        return
    slowest = rates.groupby("server")["bpt_s"].max().idxmax()
    mine, rest = rates[rates["server"] == slowest], rates[rates["server"] != slowest]
    axes.plot(mine["t"], mine["bpt_s"], color=colour, label=f"{label}, server {slowest}")
    if len(rest):
        mean = rest.groupby("t")["bpt_s"].mean()
        axes.plot(mean.index, mean, color=colour, linewidth=0.8, linestyle="--", label=f"{label}, other servers")
