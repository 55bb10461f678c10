"""Live and virtual job completion times of every case, and the relative error of the virtual ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.experiments.plotted import caption_of
from analysis.experiments.results import Results
from analysis.figures.names import shown_name
from analysis.figures.page import legend_above, new_page, save, styled
from analysis.figures.style import FAINT, INK, error_reach
from analysis.measures.agreement import CASE, OFF, PACED, SIDE, UNCLEAR, cases, relative

HEIGHT = 0.4
"""Height of one of the two bars of a strategy; strategies are 1 apart."""
ROW_IN, FRAME_IN = 0.18, 0.52
"""Height of a strategy, and of a panel's title and axis."""
OFFSETS = {"live": -HEIGHT / 2, "virtual": HEIGHT / 2}
COLOURS = {"live": "#3f78a8", "virtual": "#a9cbe4"}
MISS = "#B00020"
AT_LIVE_SPEED = "#2c7a4b"
NOTE = (
    "bars: median over the seeds, dots: seeds; diamonds: median error of the pairs with its 95 % interval, "
    "shade: {percent:g} % either way, ?: inconclusive"
)


def draw(path: Path, results: Results) -> Path:
    """Draw ``path`` (a PNG); writes its numbers as a CSV file next to it. Of ``results.runs`` it takes ``jct_s``."""
    tolerance_frac = results.spec.figure.within_frac
    medians, seeds = cases(results.runs, "jct_s", tolerance_frac), seed_errors(results.runs)
    panels = list(dict.fromkeys(medians["straggler"]))
    heights = [FRAME_IN + ROW_IN * int((medians["straggler"] == name).sum()) for name in panels]
    reach = error_reach([*medians["error"], *seeds["error"]], tolerance_frac)
    paced = PACED in set(results.runs[SIDE])
    with styled():
        page = new_page(sum(heights) + 0.25, caption_of(results, NOTE.format(percent=100 * tolerance_frac)))
        shape = {"height_ratios": heights, "width_ratios": [1.45, 1.0]}
        grid = page.subplots(len(panels), 2, squeeze=False, gridspec_kw=shape)
        for name, (times, errors) in zip(panels, grid, strict=True):
            middle, each = medians[medians["straggler"] == name], seeds[seeds["straggler"] == name]
            draw_times(times, middle, each)
            errors.axvspan(-100 * tolerance_frac, 100 * tolerance_frac, color="#eeeeee", linewidth=0, zorder=0)
            draw_errors(errors, middle, each, reach)
            times.set_title(f"stragglers: {name.replace('_', ' ')}")
        keys: list[Artist] = [
            Patch(color=colour, linewidth=0, label=f"{side} ({where})")
            for (side, colour), where in zip(COLOURS.items(), ("above", "below"), strict=True)
        ]
        if paced:
            label = "virtual at live's processor speed (below)"
            keys.append(Line2D([], [], color=AT_LIVE_SPEED, marker="D", markersize=5, label=label))
        legend_above(page, keys)
        return save(page, path, _plotted_numbers(medians, seeds, ["paced"] if paced else []))


def seed_errors(runs: pd.DataFrame) -> pd.DataFrame:
    """``straggler``, ``strategy``, ``seed``, ``live`` and ``virtual`` JCT in seconds, relative ``error``."""
    wide = runs[runs[SIDE].isin(OFFSETS)].pivot(index=[*CASE, "seed"], columns=SIDE, values="jct_s").reset_index()
    wide.columns.name = None
    return wide.assign(error=[relative(*pair) for pair in zip(wide["live"], wide["virtual"], strict=True)])


def draw_times(axes: Axes, medians: pd.DataFrame, seeds: pd.DataFrame) -> None:
    """Two bars per strategy, ``live`` above ``virtual``, and both numbers; infinite ones as text."""
    values = seeds[["live", "virtual"]].to_numpy(dtype="float64")
    axes.set_xlim(0.0, max(values[np.isfinite(values)], default=1.0) * 1.25)
    for y, row in enumerate(medians.itertuples()):
        mine = seeds[seeds["strategy"] == row.strategy]
        edges, texts = list[float](), list[str]()
        for side, offset in OFFSETS.items():
            value, each = getattr(row, side), mine[side].to_numpy(dtype="float64")
            there = each[np.isfinite(each)]
            edge = max([*there, value] if np.isfinite(value) else there, default=0.0)
            if np.isfinite(value):
                axes.barh(y + offset, value, HEIGHT * 0.94, color=COLOURS[side], linewidth=0)
            _draw_dots(axes, there, y + offset)
            edges.append(edge)
            texts.append(f"{value:#.3g}".rstrip(".") if np.isfinite(value) else "cut off")
        both = " / ".join(dict.fromkeys(texts))  # one text where both sides are cut off
        axes.annotate(both, (max(edges), y), (5, 0), textcoords="offset points", va="center", fontsize=6.5)
    _frame(axes, list(medians["strategy"]), named=True)
    axes.set_xlabel("job completion time (s)")


def draw_errors(axes: Axes, medians: pd.DataFrame, seeds: pd.DataFrame, reach: float) -> None:
    """Relative errors in per cent with their intervals; misses in red, inconclusive ones with a mark.

    An arrow marks an error beyond the axis (``reach``). Those at live's processor speed, if there are any, are below.
    """
    axes.axvline(0.0, color=FAINT, linewidth=0.8, zorder=0.5)
    axes.set_xlim(-100 * reach, 100 * reach)
    for y, row in enumerate(medians.itertuples()):
        each = seeds.loc[seeds["strategy"] == row.strategy, "error"].to_numpy(dtype="float64")
        paced = row.paced_pairs > 0
        above = y - HEIGHT / 2 if paced else y
        _draw_dots(axes, 100 * each[np.abs(each) <= reach], above)
        text = _error_text(row.error, row.live, row.virtual)
        _draw_error(axes, above, (row.error, row.low, row.high), row.verdict, reach, text)
        if paced:
            found = row.paced_error, row.paced_low, row.paced_high
            text = _error_text(row.paced_error, row.live, row.paced_error)  # unbounded where its time is
            _draw_error(axes, y + HEIGHT / 2, found, row.paced_verdict, reach, text, AT_LIVE_SPEED)
    _frame(axes, list(medians["strategy"]), named=False)
    axes.set_xlabel("virtual against live (%)")


def _error_text(error: float, *times: float) -> str:
    """The error in per cent, if all of the times are finite: a dash if neither is, else that there is one only."""
    if np.isfinite(times).all():
        return f"{100 * error:+.1f}"
    return "\N{EN DASH}" if np.isnan(error) else "one only"


def _draw_error(
    axes: Axes, y: float, found: tuple[float, float, float], verdict: Any, reach: float, text: str, colour: str = INK
) -> None:
    """An error with its interval (``found``: it, low, high), and ``text`` on the right."""
    error, low, high = found
    bad = verdict == OFF
    colour = MISS if bad else colour
    if np.isfinite([low, high]).all():
        ends = 100 * np.clip([low, high], -reach, reach)
        axes.plot(ends, [y, y], color=colour, linewidth=1.4, solid_capstyle="butt")
    marker = "D" if abs(error) <= reach else ">" if error > 0 else "<"
    shown = 100 * float(np.clip(error, -reach, reach))
    axes.plot(shown, y, marker, color=colour, markersize=4, markeredgewidth=0, clip_on=False)
    style: dict[str, Any] = {"color": colour, **({"fontweight": "bold"} if bad else {})}
    text += " ?" if verdict == UNCLEAR else ""
    axes.text(1.03, y, text, transform=axes.get_yaxis_transform(), va="center", fontsize=6.5, **style)


def _draw_dots(axes: Axes, values: np.ndarray, y: float) -> None:
    """One dot per seed, spread a little; a single one would only cover the median."""
    if len(values) > 1:
        heights = y + HEIGHT * 0.3 * np.linspace(-1.0, 1.0, len(values))
        axes.plot(values, heights, "o", color="white", markeredgecolor=INK, markeredgewidth=0.5, markersize=2.0)


def _frame(axes: Axes, names: list[str], *, named: bool) -> None:
    axes.set_yticks(range(len(names)), [shown_name(name) for name in names] if named else [""] * len(names), fontsize=7)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(named)
    axes.spines["left"].set_color("#bbbbbb")
    axes.grid(visible=True, axis="x")


def _plotted_numbers(medians: pd.DataFrame, seeds: pd.DataFrame, paced: list[str]) -> pd.DataFrame:
    """The plotted numbers: the medians, then every seed."""
    columns = [*CASE, "seed", "live", "virtual", "error"]
    middle = medians.assign(seed="median", paced=medians["paced_error"])
    both = pd.concat([middle[columns + paced], seeds[columns].astype({"seed": "str"})])
    names = {"live": "live_s", "virtual": "virtual_s", "error": "error_frac", "paced": "error_at_live_speed_frac"}
    return both.rename(columns=names)
