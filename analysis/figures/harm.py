"""Harm and gain as a map: a panel per number of workers, a row per strategy, a column per pattern of stragglers."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from numpy.typing import NDArray

from analysis.figures.names import shown_name
from analysis.figures.page import new_page, save, styled
from analysis.figures.style import INK
from analysis.measures.harm import TOLERATED, Cell

CELL_IN, MARGIN_IN = 0.135, 1.5
"""Height of a row; of all else above and below the panels."""
FRONT_CELL_IN, FRONT_MARGIN_IN = 0.24, 1.0
"""The same of the picture for readers who come first."""
FRONT_WORKERS = 16
SHOWN = (
    *("asp", "ssp", "backup_workers", "lgc", "dynamic_x", "sync_switch", "star_h", "lb_bsp", "antdt_nd", "mlfabric"),
    *("coding_cyclic", "coding_heter_aware"),
)
"""Its strategies: from no waiting over less waiting and other batches to redundant work."""
DARK = 1.2
"""Doublings from which on a colour is so dark that its number is white."""
REACH = 2.0
"""Doublings from the middle of the scale to its ends, 1/4 and 4; what is beyond has the same colour."""
COLOURS: Colormap = LinearSegmentedColormap.from_list("harm", ["#0072B2", "#ffffff", "#D55E00"]).with_extremes(
    bad="#dddddd"
)
"""Blue: faster, white: alike, orange: slower (Okabe and Ito's, which all eyes tell apart); grey: refused or failed."""


def draw_harm(path: Path, cells: Sequence[Cell], caption: str) -> Path:
    """Draw ``path`` (a PNG) of the cells of a grid; writes their ratios as a CSV file next to it."""
    counts = list(dict.fromkeys(cell.workers for cell in cells))
    rows, columns = dict.fromkeys(c.strategy for c in cells), dict.fromkeys(c.straggler for c in cells)
    with styled():
        page = new_page(CELL_IN * len(rows) + MARGIN_IN, caption)
        panels = page.subplots(1, len(counts), sharey=True, squeeze=False)[0]
        for count, axes in zip(counts, panels, strict=True):
            draw_map(axes, [cell for cell in cells if cell.workers == count], list(rows), list(columns))
            axes.set_title(f"{count} workers")
        panels[0].set_yticks(range(len(rows)), [shown_name(name) for name in rows])
        panels[0].tick_params(axis="y", labelsize=6.5)
        scale = ScalarMappable(Normalize(-REACH, REACH), COLOURS)
        bar = page.colorbar(scale, ax=list(panels), location="bottom", shrink=0.5, aspect=40, extend="both")
        bar.set_ticks([-2, -1, 0, 1, 2], labels=["1/4", "1/2", "1", "2", "4"])
        bar.set_label(f"JCT relative to BSP (dots: more than {TOLERATED:g}; grey: refused or failed)")
        bar.outline.set_visible(False)
    return save(page, path, _table(cells))


def front_of(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of :data:`SHOWN` with :data:`FRONT_WORKERS` workers."""
    return [one for one in cells if one.workers == FRONT_WORKERS and one.strategy in SHOWN]


def draw_answer(path: Path, cells: Sequence[Cell], caption: str) -> Path:
    """Draw the picture for readers who come first, of :func:`front_of`: each cell with its ratio."""
    columns = list(dict.fromkeys(cell.straggler for cell in cells))
    rows = [name for name in SHOWN if any(cell.strategy == name for cell in cells)]
    with styled():
        page = new_page(FRONT_CELL_IN * len(rows) + FRONT_MARGIN_IN, caption)
        axes = page.subplots()
        draw_map(axes, cells, rows, columns, dots=False)
        for cell in cells:
            if cell.ratio > 0.0:
                ink = "white" if abs(log2(cell.ratio)) > DARK else INK
                place = columns.index(cell.straggler), rows.index(cell.strategy)
                axes.text(*place, f"{cell.ratio:.2f}", ha="center", va="center", fontsize=7, color=ink)
        axes.set_yticks(range(len(rows)), [shown_name(name) for name in rows], fontsize=8)
        axes.set_xticks(range(len(columns)), [name.replace("_", "\n") for name in columns], rotation=45, fontsize=7)
        axes.xaxis.tick_top()
        axes.set_xlabel("JCT relative to BSP under the same stragglers: blue is faster, orange is slower")
    return save(page, path, _table(cells))


def _table(cells: Sequence[Cell]) -> pd.DataFrame:
    """The numbers that a picture shows, a row per cell."""
    shown = [(c.workers, c.straggler, c.strategy, c.outcome, c.ratio) for c in cells]
    return pd.DataFrame(shown, columns=["workers", "straggler", "strategy", "outcome", "ratio"])


def draw_map(axes: Axes, cells: Sequence[Cell], rows: list[str], columns: list[str], *, dots: bool = True) -> None:
    """Draw one panel; ``dots``: one marks every cell that is harmed."""
    axes.imshow(
        np.ma.masked_invalid(doublings(cells, rows, columns)), cmap=COLOURS, vmin=-REACH, vmax=REACH, aspect="auto"
    )
    harmed = [(columns.index(c.straggler), rows.index(c.strategy)) for c in cells if c.harmed]
    if dots and harmed:
        axes.plot(*zip(*harmed, strict=True), ".", color="black", markersize=2.2)
    axes.set_xticks(range(len(columns)), [name.replace("_", " ") for name in columns], rotation=90, fontsize=6.5)
    axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    axes.grid(visible=True, which="minor", color="white", linewidth=0.8)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)


def doublings(cells: Sequence[Cell], rows: list[str], columns: list[str]) -> NDArray[np.float64]:
    """log2 of the ratios, float [rows, columns]; NaN where there is none."""
    found = np.full((len(rows), len(columns)), np.nan)
    for cell in cells:
        if cell.ratio > 0.0:
            found[rows.index(cell.strategy), columns.index(cell.straggler)] = log2(cell.ratio)
    return found
