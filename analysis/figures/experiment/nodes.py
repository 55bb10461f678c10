"""Batch processing time of every worker, and time per update of every server, over the run (one seed)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from analysis.experiments.measures import server_rates
from analysis.experiments.results import Results
from analysis.figures.experiment.servers import bin_rates
from analysis.figures.experiment.workers import over_time
from analysis.figures.page import new_page, save, styled
from analysis.figures.style import PALETTE
from analysis.figures.time_axis import time_axis
from analysis.measures.metrics import jct_s
from analysis.records.provenance import caption


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    _, run = next(iter(results.records.values()))
    workers = over_time(run).rename(columns={"worker": "node"}).assign(role="worker")
    servers = bin_rates(server_rates(run), jct_s(run)).rename(columns={"server": "node"}).assign(role="server")
    with styled():
        page = new_page(4.4, f"seed {results.spec.seeds[0]}: {caption(results.metas)}")
        above, below = page.subplots(2, 1, sharex=True)
        draw_nodes(above, workers.dropna(subset="bpt_s"), "worker", 1.0)
        draw_nodes(below, servers, "server", 1e3)
        above.set_ylabel("batch processing time\nof a worker (s)")
        below.set_ylabel("time per update\nof a server (ms)")
        time_axis(below.xaxis, "time since the start of the job")
    return save(page, path, pd.concat([workers, servers], ignore_index=True))


def draw_nodes(axes: Axes, frame: pd.DataFrame, role: str, scale: float) -> None:
    """A line per node: ``node``, ``t`` (s), ``bpt_s``, drawn as ``bpt_s * scale``."""
    for node, rows in frame.groupby("node"):
        colour = PALETTE[int(str(node)) % len(PALETTE)]
        axes.plot(rows["t"], rows["bpt_s"] * scale, color=colour, linewidth=1.1, label=f"{role} {node}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), borderaxespad=0.2)
    axes.set_ylim(bottom=0.0)
    axes.grid(visible=True, axis="y")
