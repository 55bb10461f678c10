"""Stragglers of all jobs as distributions, in the panels of STAR's measurement study; and their causes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.cluster.curves import (
    distribution,
    distribution_of_bins,
    draw_distribution,
    frame_distribution,
    keys_of,
    log_axis,
    looks_of,
    mark,
    plain_log,
)
from analysis.figures.page import new_page, save
from analysis.figures.style import FAINT, INK, Look
from analysis.measures.cluster.episodes import CAUSES
from analysis.measures.cluster.straggling import MOST_SERVERS, Straggling
from analysis.measures.work import STRAGGLER_FRAC

CAUSE_COLOURS = {
    "processor": "#3f78a8",
    "injected": "#D55E00",
    "link": "#e8b33c",
    "servers": "#56B4E9",
    "peers": "#bdbdbd",
}
CAUSE_NAMES = {"servers": "wait for servers", "peers": "others were faster"}
LEAST, MOST = 1e-3, 10.0
"""Deviations that are drawn; smaller ones at the left edge."""
SHADES = ("#9ecae1", "#6baed6", "#3182bd", "#08519c")


def draw_stragglers(path: Path, found: Mapping[str, Straggling], about: str) -> Path | None:
    """Draw how often, how much and how long workers straggle, by label."""
    some = {label: each for label, each in found.items() if len(each.jobs)}
    if not some:
        return None
    looks, shown = looks_of(found), []
    page = new_page(4.3, about)
    (share, deviation), (length, seconds) = page.subplots(2, 2)
    for label, each in some.items():
        rows = each.deviations
        curves = {
            "straggler_frac": distribution(each.jobs["straggler_frac"] * 100),
            "deviation_frac": distribution_of_bins(rows[rows["kind"] == "iteration"]),
            "iterations": distribution(each.episodes["iterations"]),
            "seconds": distribution(each.episodes["end_s"] - each.episodes["start_s"]),
        }
        draw_distribution(share, curves["straggler_frac"], looks[label])
        draw_distribution(deviation, curves["deviation_frac"], looks[label], LEAST)
        shown += [curve.assign(measure=name, label=label) for name, curve in curves.items()]
    _draw_lengths(length, "iterations", shown, looks)
    _draw_lengths(seconds, "seconds", shown, looks)
    share.set_xlim(0.0, 100.0)
    mark(share, 50.0, "half")
    frame_distribution(share, "iterations of a job with a straggler (%)", "jobs")
    plain_log(deviation)
    deviation.set_xlim(LEAST, MOST)
    mark(deviation, STRAGGLER_FRAC, "straggler")
    frame_distribution(deviation, "deviation of the slowest worker", "iterations")
    frame_distribution(length, "length of an episode (iterations)", "episodes")
    frame_distribution(seconds, "length of an episode", "episodes", seconds=True)
    if len(looks) > 1:
        page.legend(handles=keys_of(looks), loc="outside upper left", ncols=min(5, len(looks)), columnspacing=1.3)
    return save(page, path, pd.concat(shown, ignore_index=True))


def _draw_lengths(axes: Axes, measure: str, shown: list[pd.DataFrame], looks: Mapping[str, Look]) -> None:
    curves = [curve for curve in shown if len(curve) and curve["measure"].iloc[0] == measure]
    floor = log_axis(axes, curves)
    for curve in curves:
        draw_distribution(axes, curve, looks[curve["label"].iloc[0]], floor)


def draw_causes(path: Path, found: Mapping[str, Straggling], about: str) -> Path | None:
    """Draw the causes of the episodes, and of one run deviations by the number of servers on a worker's host."""
    some = {label: each for label, each in found.items() if len(each.episodes)}
    if not some:
        return None
    rows = [row for label, each in some.items() for row in cause_shares(each.episodes, label)]
    by_servers = {label: _by_servers(each.deviations) for label, each in some.items()}
    several = len(some) > 1
    page = new_page(1.15 + 0.26 * len(rows) + (0.0 if several else 2.2), about)
    grid = page.subplots(
        1 if several else 2, 1, squeeze=False, height_ratios=None if several else [0.8 + 0.26 * len(rows), 2.2]
    )
    table = pd.DataFrame(rows)
    _draw_shares(grid[0][0], table, several)
    keys, names = grid[0][0].get_legend_handles_labels()
    page.legend(keys, names, loc="outside upper left", ncols=len(keys), columnspacing=1.3, handlelength=1.0)
    if not several:
        _draw_by_servers(grid[1][0], next(iter(by_servers.values())))
    curves = [
        curve.assign(label=label, servers=number)
        for label, each in by_servers.items()
        for number, curve in each.items()
    ]
    return save(page, path, pd.concat([table, *curves], ignore_index=True))


def cause_shares(episodes: pd.DataFrame, label: str) -> list[dict[str, object]]:
    """Rows ``label``, ``of`` (which episodes, or their seconds lost), ``episodes`` and a share per cause.

    Without a label, as a run alone, also of the episodes with and without neighbours.
    """
    near = (episodes["neighbours"] != "") | (episodes["server_neighbours"] != "")
    groups = {"seconds lost": (episodes, episodes["lost_s"]), "episodes": (episodes, None)}
    if not label:
        groups |= {"with neighbours": (episodes[near], None), "without neighbours": (episodes[~near], None)}
    found: list[dict[str, object]] = []
    for name, (rows, weight) in groups.items():
        weights = pd.Series(1.0, rows.index) if weight is None else weight
        total = float(weights.sum())
        sums = weights.groupby(rows["cause"]).sum()
        if total > 0.0:
            found.append(
                {
                    "label": label,
                    "of": name,
                    "episodes": len(rows),
                    **{c: float(sums.get(c, 0.0)) / total for c in CAUSES},
                }
            )
    return found


def _draw_shares(axes: Axes, table: pd.DataFrame, several: bool) -> None:
    left = np.zeros(len(table))
    for cause in CAUSES:
        part = table[cause].to_numpy(dtype="float64") * 100
        if not part.any():
            continue
        axes.barh(
            range(len(table)),
            part,
            0.7,
            left,
            color=CAUSE_COLOURS[cause],
            linewidth=0,
            label=CAUSE_NAMES.get(cause, cause),
        )
        for y, (start, width) in enumerate(zip(left, part, strict=True)):
            if width >= 5.0:
                ink = "white" if cause in ("processor", "injected") else INK
                axes.text(start + width / 2, y, f"{width:.0f}", ha="center", va="center", fontsize=7.5, color=ink)
        left += part
    names = [f"{row.label}: {row.of}" if several else str(row.of) for row in table.itertuples()]
    axes.set_yticks(
        range(len(table)), [f"{name} ({row.episodes:,})" for name, row in zip(names, table.itertuples(), strict=True)]
    )
    axes.set_ylim(len(table) - 0.5, -0.5)
    axes.set_xlim(0.0, 100.0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("what was stretched, share of episodes or of the seconds lost in them (%)")


def _by_servers(deviations: pd.DataFrame) -> dict[int, pd.DataFrame]:
    found = {number: deviations[deviations["kind"] == f"servers={number}"] for number in range(MOST_SERVERS + 1)}
    return {number: distribution_of_bins(rows) for number, rows in found.items() if len(rows)}


def _draw_by_servers(axes: Axes, curves: Mapping[int, pd.DataFrame]) -> None:
    for number, curve in curves.items():
        draw_distribution(axes, curve, Look(SHADES[number]), LEAST)
        axes.plot([], [], color=SHADES[number], label=f"{number}{' or more' if number == MOST_SERVERS else ''}")
    plain_log(axes)
    axes.set_xlim(LEAST, MOST)
    mark(axes, STRAGGLER_FRAC, "straggler")
    frame_distribution(axes, "deviation of a worker", "iterations of workers")
    legend = axes.legend(loc="lower right", title="parameter servers\non the worker's host", title_fontsize=7.5)
    legend.get_title().set_color(FAINT)
