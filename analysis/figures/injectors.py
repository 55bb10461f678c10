"""Requested and achieved disturbances: slow-downs by actuator and iteration length, link rates, and their errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MultipleLocator, NullLocator

from analysis.figures.page import legend_above, new_page, save, styled
from analysis.figures.style import FAINT, error_reach
from analysis.measures.injector_errors import BITS_PER_MBIT, TOLERANCE_FRAC
from analysis.records.provenance import caption

NOTE = "markers: medians; bars: 10 % to 90 % of the iterations; lines: as asked; shade: 10 % either way"
KINDS = ("cpu", "gpu", "delay", "slowdown", "bandwidth")
"""The kinds of disturbance that this figure shows."""
MARKS = {
    "sleep": ("o", "#009E73"),
    "cgroup": ("s", "#0072B2"),
    "duty": ("^", "#E69F00"),
    "cpulimit": ("D", "#D55E00"),
    "hog": ("v", "#882255"),
    "pushes": (">", "#332288"),
    "pulls": ("<", "#CC79A7"),
}
SPREAD = 1.06
"""Markers at the same level are placed side by side: the factor between two neighbours."""
PANEL_IN, COLUMNS = 3.0, 3
DECADES = 2.0
"""Axes that span less than this get ticks at 1, 2 and 5 of every decade."""


POINT = ("series", "asked", "achieved", "low", "high", "error")


class Panel(NamedTuple):
    """One panel; ``points`` has the columns ``POINT`` (``low`` NaN: no bar)."""

    title: str
    unit: str
    points: pd.DataFrame


def draw_injectors(path: Path, metas: Sequence[dict[str, Any]], table: pd.DataFrame) -> Path | None:
    """Draw ``path`` (a PNG) and a CSV file with its numbers; None if there is nothing to plot.

    Args:
        path: output file.
        metas: ``meta.json`` of the runs, for the caption.
        table: :func:`analysis.measures.injector_errors.errors`.
    """
    panels = list(_panels(table))
    if not panels:
        return None
    shown = pd.concat([panel.points.assign(panel=panel.title, unit=panel.unit) for panel in panels])
    reach, columns = error_reach(shown["error"], TOLERANCE_FRAC), min(len(panels), COLUMNS)
    lines = -(-len(panels) // columns)
    with styled():
        page = new_page(PANEL_IN * lines + 0.2, f"{NOTE} \N{MIDDLE DOT} {caption(metas)}")
        grid = page.subplots(2 * lines, columns, squeeze=False, gridspec_kw={"height_ratios": [2.2, 1.0] * lines})
        places = [(grid[2 * line][column], grid[2 * line + 1][column]) for line, column in np.ndindex(lines, columns)]
        for place, ((above, below), panel) in enumerate(zip(places, panels, strict=False)):
            draw_panel(above, below, panel, reach, named=place % columns == 0)
        for axes in chain.from_iterable(places[len(panels) :]):
            axes.remove()
        keys: list[Artist] = []
        for name in _order_series(shown["series"]):
            marker, colour = _look(name)
            keys.append(Line2D([], [], marker=marker, color=colour, linestyle="none", markersize=4, label=name))
        legend_above(page, keys)
        return save(page, path, shown)


def _panels(table: pd.DataFrame) -> Iterator[Panel]:
    """One panel per iteration length with throttled processors or delayed work, one for all links."""
    slowed = table[table["kind"].isin(KINDS) & (table["kind"] != "bandwidth") & table["slowdown"].notna()]
    for length, rows in slowed.groupby("length_ms"):
        columns = ("by", "slowdown_asked", "slowdown", "slowdown_p10", "slowdown_p90", "error")
        points = rows[list(columns)].set_axis(list(POINT), axis="columns")
        yield Panel(f"iterations of {length:g} ms", "slow-down", points)
    parts = [_link_points(table[table["kind"] == "bandwidth"], name) for name in ("push", "pull")]
    if len(points := pd.concat(parts)):
        yield Panel("links", "payload (Mbit/s)", points)


def _link_points(links: pd.DataFrame, name: str) -> pd.DataFrame:
    rows = links[links[f"{name}_bytes_per_s"].notna()]
    to_mbps = 8 / BITS_PER_MBIT
    points = {"series": {"push": "pushes", "pull": "pulls"}[name], "asked": rows["payload_asked_bytes_per_s"] * to_mbps}
    points |= {"achieved": rows[f"{name}_bytes_per_s"] * to_mbps, "low": np.nan, "high": np.nan}
    return pd.DataFrame(points | {"error": rows[f"{name}_error"]}, columns=list(POINT), index=rows.index)


def draw_panel(above: Axes, below: Axes, panel: Panel, reach: float, *, named: bool) -> None:
    """Values on two logarithmic axes, and below them their relative errors, up to ``reach`` (an arrow: beyond)."""
    points = panel.points
    least, most = float(points["asked"].min()) / 1.35, float(points["asked"].max()) * 1.35
    ideal = np.array([least, most])
    above.plot(ideal, ideal, color=FAINT, linewidth=0.8, zorder=2)
    above.fill_between(ideal, ideal * (1 - TOLERANCE_FRAC), ideal * (1 + TOLERANCE_FRAC), color="#eeeeee", linewidth=0)
    below.axhline(0.0, color=FAINT, linewidth=0.8, zorder=1)
    below.axhspan(-100 * TOLERANCE_FRAC, 100 * TOLERANCE_FRAC, color="#eeeeee", linewidth=0, zorder=0)
    names = _order_series(points["series"])
    for number, name in enumerate(names):
        rows = points[points["series"] == name]
        x = rows["asked"].to_numpy() * SPREAD ** (number - (len(names) - 1) / 2)
        marker, colour = _look(name)
        plain: dict[str, Any] = {"color": colour, "markersize": 4, "markeredgewidth": 0, "zorder": 3}
        barred = rows["low"].notna().to_numpy()
        above.vlines(x[barred], rows["low"][barred], rows["high"][barred], color=colour, linewidth=0.9, alpha=0.75)
        above.plot(x, rows["achieved"], marker, **plain)
        for at, error in zip(x, rows["error"], strict=True):
            shape = marker if abs(error) <= reach else 6 if error > 0 else 7
            below.plot(at, 100 * float(np.clip(error, -reach, reach)), marker=shape, clip_on=False, **plain)
    _frame(above, below, panel, (least, most), reach, named=named)


def _order_series(series: pd.Series) -> list[str]:
    return [name for name in MARKS if name in set(series)] + sorted(set(series) - set(MARKS))


def _look(name: str) -> tuple[str, str]:
    return MARKS.get(name, ("v", FAINT))


def _frame(above: Axes, below: Axes, panel: Panel, limits: tuple[float, float], reach: float, *, named: bool) -> None:
    for axes in (above, below):
        axes.set_xscale("log")
        axes.set_xlim(limits)
        axes.grid(visible=True)
    above.set_yscale("log")
    steps = (1.0, 2.0, 5.0) if np.log10(limits[1] / limits[0]) < DECADES else (1.0,)
    for axis in (above.xaxis, above.yaxis, below.xaxis):
        axis.set_major_locator(LogLocator(subs=steps))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    above.tick_params(labelbottom=False)
    above.set_title(panel.title)
    below.set_ylim(-100 * reach, 100 * reach)
    below.yaxis.set_major_locator(MultipleLocator(10 if reach <= 0.25 else 20))
    below.set_xlabel(f"{panel.unit}, asked")
    if named or panel.unit.startswith("payload"):
        above.set_ylabel(f"{panel.unit}, achieved")
    if named:
        below.set_ylabel("error (%)")
