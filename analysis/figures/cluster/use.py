"""GPUs in use and jobs that wait, over time; and how much of every host was used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.figures.cluster.curves import keys_of, looks_of
from analysis.figures.page import new_page, save
from analysis.figures.style import FAINT, Look
from analysis.figures.time_axis import time_axis

MOST_POINTS = 4000
"""Changes that are drawn; of more, the mean of neighbours, which no eye would tell apart."""


def draw_use(path: Path, use: Mapping[str, pd.DataFrame], gpus: int, about: str) -> Path | None:
    """Draw GPUs in use above the number of jobs that wait.

    Args:
        path: the PNG.
        use: frames of :func:`analysis.measures.cluster.jobs.use_over_time` by label.
        gpus: GPUs of the cluster.
        about: the caption.
    """
    if not any(len(frame) > 1 for frame in use.values()):
        return None
    looks, shown = looks_of(use), []
    page = new_page(3.2, about)
    above, below = page.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    for label, frame in use.items():
        lines = thin_rows(frame)
        _draw_steps(above, lines, "gpus_used", looks[label], fill=len(use) == 1)
        _draw_steps(below, lines, "jobs_queued", looks[label], fill=len(use) == 1)
        shown.append(frame.assign(label=label))
    above.axhline(gpus, color=FAINT, linewidth=0.8, linestyle=":")
    above.set_ylim(0.0, gpus * 1.08)
    above.set_ylabel(f"GPUs in use (of {gpus})")
    below.set_ylim(bottom=0.0)
    below.set_ylabel("jobs that wait")
    below.set_xlim(0.0, max(float(frame["t_s"].max()) for frame in use.values()))
    time_axis(below.xaxis, "time since the start of the cluster")
    for axes in (above, below):
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.grid(visible=True, axis="y")
    if len(looks) > 1:
        page.legend(handles=keys_of(looks), loc="outside upper left", ncols=min(5, len(looks)), columnspacing=1.3)
    return save(page, path, pd.concat(shown, ignore_index=True))


def thin_rows(frame: pd.DataFrame, most: int = MOST_POINTS) -> pd.DataFrame:
    """At most ``most`` rows of ``t_s`` and values that hold until the next row; of more, means of equal times."""
    if len(frame) <= most:
        return frame
    t = frame["t_s"].to_numpy()
    edges = np.linspace(t[0], t[-1], most + 1)
    columns = {}
    for name in frame.columns.drop("t_s"):
        area = np.concatenate([[0.0], np.cumsum(np.diff(t) * frame[name].to_numpy()[:-1])])
        columns[name] = np.diff(np.interp(edges, t, area)) / np.diff(edges)
    return pd.DataFrame({"t_s": edges[:-1], **columns})


def _draw_steps(axes: Axes, frame: pd.DataFrame, name: str, look: Look, fill: bool) -> None:
    if fill:
        axes.fill_between(frame["t_s"], frame[name], step="post", color=look.colour, alpha=0.25, linewidth=0)
    axes.step(frame["t_s"], frame[name], where="post", color=look.colour, linestyle=look.line, linewidth=1.0)


def draw_host_use(path: Path, hosts: pd.DataFrame, about: str) -> Path | None:
    """Draw every host's mean use of GPUs, processor and link, as far as they are known.

    ``hosts``: what :func:`analysis.measures.cluster.hosts.host_use` returns.
    """
    names = {"gpu_use_frac": "GPUs in use (%)", "cpu_frac": "processor in use (%)", "link_frac": "link in use (%)"}
    panels = {name: label for name, label in names.items() if hosts[name].notna().any()}
    if not panels:
        return None
    hosts = hosts[hosts[list(panels)].notna().any(axis=1)]  # one without GPUs uses none of what is shown
    looks = dict(zip(names, ("#0072B2", "#7b68a6", "#e8b33c"), strict=True))
    page = new_page(min(8.0, 0.7 + 0.17 * len(hosts)), about)
    grid = page.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (name, label) in zip(grid, panels.items(), strict=True):
        axes.barh(range(len(hosts)), hosts[name] * 100, 0.72, color=looks[name], alpha=0.85, linewidth=0)
        axes.set_xlim(0.0, 100.0)
        axes.set_xlabel(label)
        axes.grid(visible=True, axis="x")
    every = max(1, len(hosts) // 40)
    grid[0].set_yticks(range(0, len(hosts), every), [f"host {host}" for host in hosts["host"][::every]])
    grid[0].set_ylim(len(hosts) - 0.4, -0.6)
    for axes in grid:
        axes.tick_params(axis="y", length=0)
    return save(page, path, hosts)
