"""An experiment as performance profiles: a panel per level of an axis, a line per level of ``by``.

A case is a combination of the other axes' levels and the seed. A panel compares the levels that were run in all of its
cases; the best of them, and the levels ``figure.fixed``, have a colour.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.claims.answers import mask_cut_off
from analysis.experiments.results import Results
from analysis.figures.names import shown_name, shown_title
from analysis.figures.page import NARROW_IN, label_left, new_grid, page_width_in, save, styled
from analysis.figures.style import Look, level_looks
from analysis.measures.profiles import MOST, profile_scores, ratios_to_best, within
from analysis.records.load import RecordError

BEST = 7
"""Lines with a colour, besides ``figure.fixed``: those with the largest areas."""
FACTORS = (1.0, 1.1, 1.25, 1.5, 2.0, MOST)
"""Factors in the table."""
REST = "#cfcfcf"
"""The colour of all other lines."""


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    spec, drawn = results.spec, results.spec.figure
    levels = [None] if drawn.panels is None else list(spec.levels[drawn.panels])
    each = [(level, times) for level in levels if (times := cases(results, level)).size]
    if not each:
        raise RecordError(f"{spec.name}: no {drawn.by} was run in all cases of a panel, so there is no profile to draw")
    others = [axis for axis in spec.levels if axis not in (drawn.by, drawn.panels)]
    note = (
        f"a case: {', '.join([*others, 'seed'])}; lines: share of the cases in which the time is within a factor of "
        f"the best one there; numbers: area below the line up to {MOST:g}, 1 if always the best; grey: all others"
    )
    look = level_looks(spec.shown_levels, drawn.looks)
    with styled():
        page, places = new_grid(2.5, f"{note} \N{MIDDLE DOT} {results.source}", len(each), most=1)
        for axes, (level, times) in zip(places, each, strict=True):
            count = f"{times.shape[1]} compared in {times.shape[0]} cases"
            title = "" if level is None else f"{shown_title(str(drawn.panels), level, drawn.names)}: "
            axes.set_title(f"{title}{count}")
            draw_profiles(axes, times, look, results)
        places[-1].set_xlabel(drawn.along_label or "times as long as the best")
        label_left(places, drawn.label)
    return save(page, path, pd.concat([profiles(results, level) for level, _ in each], ignore_index=True))


def cases(results: Results, level: str | None) -> pd.DataFrame:
    """The times of one panel: a row per case, a column per level that was run in all of them."""
    spec, drawn = results.spec, results.spec.figure
    runs = mask_cut_off(results.runs)
    runs = runs if level is None else runs[runs[drawn.panels] == level]
    others = [axis for axis in spec.levels if axis not in (drawn.by, drawn.panels)]
    times = runs.pivot(index=[*others, "seed"], columns=drawn.by, values=drawn.value)
    return times[[name for name in spec.shown_levels if name in times]].dropna(axis="columns")


def profiles(results: Results, level: str | None) -> pd.DataFrame:
    """One row per level of a panel, the largest area first.

    ``cases``; ``score``: the area; ``within_2`` and the like: the profile there; ``ever``: the share of the cases in
    which it got there at all.
    """
    drawn, times = results.spec.figure, cases(results, level)
    found = pd.DataFrame({drawn.by: times.columns, "cases": len(times), "score": profile_scores(times.to_numpy())})
    for factor in FACTORS:
        found[f"within_{factor:g}"] = within(times.to_numpy(), factor)
    found["ever"] = np.isfinite(times.to_numpy()).mean(axis=0)
    if level is not None:
        found.insert(0, str(drawn.panels), level)
    return found.sort_values("score", ascending=False, kind="stable").round(4)


def draw_profiles(axes: Axes, times: pd.DataFrame, looks: dict[str, Look], results: Results) -> None:
    """Draw one panel; ``times`` as of :func:`cases`."""
    drawn = results.spec.figure
    ratios = pd.DataFrame(ratios_to_best(times.to_numpy()), columns=times.columns)
    scores = dict(zip(times.columns, profile_scores(times.to_numpy()), strict=True))
    order = sorted(scores, key=lambda name: -scores[name])
    coloured = [name for place, name in enumerate(order) if place < BEST or name in drawn.fixed]
    for place, name in enumerate(reversed([*coloured, *(name for name in order if name not in coloured)])):
        look, (x, y) = looks[name], steps(ratios[name].to_numpy())
        if name in coloured:
            # markers at different places, since lines overlap
            start = 0.1 + 0.8 * coloured.index(name) / len(coloured)
            line: dict[str, Any] = {
                "color": look.colour,
                "linestyle": look.line,
                "marker": look.marker,
                "markevery": (start / 4, 0.25),
            }
            label = f"{shown_name(name, drawn.names)} {scores[name]:.2f}"
            axes.plot(x, y, drawstyle="steps-post", markersize=4.5, label=label, zorder=3 + place / 100, **line)
        else:
            axes.plot(x, y, drawstyle="steps-post", color=REST, linewidth=0.8, zorder=2)
    axes.set_xscale("log")
    axes.set_xlim(1.0, MOST)
    axes.set_xticks(FACTORS, [f"{factor:g}" for factor in FACTORS])
    axes.minorticks_off()
    axes.set_ylim(0.0, 1.02)
    axes.grid(visible=True, axis="both")
    keys, labels = axes.get_legend_handles_labels()
    beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    below: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.22), "ncols": 2}
    axes.legend(keys[::-1], labels[::-1], **(below if page_width_in() < NARROW_IN else beside))


def steps(ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a profile: factors from 1 to ``MOST``, and from each on the share of the cases within it."""
    factors = np.unique([1.0, *ratios[ratios <= MOST], MOST])
    return factors, (ratios[:, None] <= factors).mean(axis=0)
