"""Gantt chart of a cluster: a lane per GPU, grouped by hosts, coloured by job; preemptions are marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D

from analysis.figures.page import new_page, save
from analysis.figures.style import INK
from analysis.figures.time_axis import time_axis
from analysis.measures.cluster.gpu_lanes import drawn_hosts, gpu_lanes
from analysis.records.cluster import Cluster

COLOURS = (
    *("#4477AA", "#EE8866", "#44AA99", "#CC6677", "#BBAA44", "#AA77BB", "#77AADD", "#997700", "#66BB66", "#EE99AA"),
    *("#225588", "#AA4466", "#99AABB", "#117755"),
)
"""Jobs take them in turns, in the order in which they start."""
GAP = 0.45
"""Between the lanes of two hosts."""
LETTERS = 150
"""Letters that fit on the width of the chart."""


def draw_gantt(path: Path, cluster: Cluster, about: str) -> Path | None:
    """Draw ``path``, and the lanes as a CSV file next to it."""
    lanes, hosts = gpu_lanes(cluster), drawn_hosts(cluster.machines["gpus"])
    if not len(lanes) or cluster.end_s <= 0.0:
        return None
    gpus = {host: int(cluster.machines["gpus"][host]) for host in hosts}
    base, height = {}, 0.0
    for host, number in gpus.items():
        base[host] = height
        height += number + GAP
    shown = lanes[lanes["host"].isin(hosts)]
    shown = shown.assign(lane=shown["host"].map(base) + shown["gpu"])
    with_gpus = int((cluster.machines["gpus"] > 0).sum())
    parts = [f"{len(hosts)} of {with_gpus} hosts with GPUs" if len(hosts) < with_gpus else ""]
    parts += ["a lane per GPU; records do not say which GPU of its host a worker has", about]
    page = new_page(min(9.0, 0.75 + 0.11 * height), " \N{MIDDLE DOT} ".join(part for part in parts if part))
    axes = page.subplots()
    colours = {job: COLOURS[place % len(COLOURS)] for place, job in enumerate(dict.fromkeys(lanes["job"]))}
    _draw_lanes(axes, shown, colours)
    _name_jobs(axes, shown, colours, cluster.end_s)
    _draw_preemptions(axes, shown)
    _frame(axes, base, gpus, height, cluster.end_s)
    if (shown["ended"] == "preempted").any():
        key = Line2D([], [], color=INK, marker="|", linestyle="none", markeredgewidth=1.6, label="preempted")
        page.legend(handles=[key], loc="outside upper right", handletextpad=0.1)
    return save(page, path, shown)


def _draw_lanes(axes: Axes, lanes: pd.DataFrame, colours: dict[str, str]) -> None:
    corners = [
        [(s, y + 0.03), (s, y + 0.97), (e, y + 0.97), (e, y + 0.03)]
        for s, e, y in zip(lanes["start_s"], lanes["end_s"], lanes["lane"], strict=True)
    ]
    faces = [colours[job] for job in lanes["job"]]
    axes.add_collection(PolyCollection(corners, facecolors=faces, edgecolors="white", linewidths=0.25), autolim=False)


def _name_jobs(axes: Axes, lanes: pd.DataFrame, colours: dict[str, str], end_s: float) -> None:
    """A job's name in the middle of its block on a host, where it fits."""
    for (job, start_s, stop_s, _), rows in lanes.groupby(["job", "start_s", "end_s", "host"], sort=False):
        if (stop_s - start_s) / end_s * LETTERS < len(job) + 1 or not _adjacent(rows["lane"].tolist()):
            continue
        middle = (rows["lane"].min() + rows["lane"].max() + 1) / 2
        box = {"facecolor": colours[job], "linewidth": 0, "pad": 0.4}
        x = (start_s + stop_s) / 2
        axes.text(x, middle, job, ha="center", va="center", fontsize=5.5, color="white", bbox=box)


def _adjacent(lanes: Sequence[float]) -> bool:
    return max(lanes) - min(lanes) == len(lanes) - 1


def _draw_preemptions(axes: Axes, lanes: pd.DataFrame) -> None:
    cut = lanes[lanes["ended"] == "preempted"]
    axes.vlines(cut["end_s"], cut["lane"], cut["lane"] + 1.0, color=INK, linewidth=1.3)


def _frame(axes: Axes, base: dict[int, float], gpus: dict[int, int], height: float, end_s: float) -> None:
    for host, low in base.items():
        axes.axhspan(low, low + gpus[host], facecolor="#f2f2f2", linewidth=0, zorder=0)
    axes.set_yticks([low + gpus[host] / 2 for host, low in base.items()], [f"host {host}" for host in base])
    axes.set_ylim(height - GAP + 0.2, -0.2)
    axes.set_xlim(0.0, end_s)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    time_axis(axes.xaxis, "time since the start of the cluster")
