"""The tables of docs/field.md: by kind of straggler, each method's time to the target over BSP's (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, isinf, isnan, nan
from typing import Any

import pandas as pd

from analysis.about import ABOUT
from analysis.experiments.numbers import DASH
from analysis.experiments.results import Results, seeds_of
from analysis.experiments.rows import Row, name_in, results_of_rows
from analysis.experiments.spec import Spec, cells
from analysis.figures.experiment.profile import profiles
from analysis.figures.names import shown_name
from analysis.markup import markdown_lines
from analysis.measures.small_samples import median

REFERENCE = "bsp"
SERVERS, ON_HOSTS = "ps", ("link_throttle",)
"""Cells are confirmed live on servers; not those whose times are another model's (``runtime.stand_in``)."""
KINDS: Mapping[str, Sequence[str]] = {
    "no straggler": ("none",),
    "slow at times": ("transient", "power_law", "pause"),
    "slow throughout": ("persistent", "heterogeneity"),
    "slow server": ("persistent_server",),
    "slow link": ("link_throttle",),
    "workers die": ("kill",),
}
"""The columns, and the patterns of each."""
NEAR_FRAC = 0.05
"""Ratios that are longer by so much at most than the shortest of their column are as good as it."""
CELLS = 10
"""How many cells :func:`most_telling` chooses."""
MOST_OF_ONE = 2
"""How many of these may be of one pattern."""


def results_kept(spec: Spec, rows: Sequence[Row]) -> Results:
    """The results of those seeds of which every cell has a row; raises ``ValueError`` if there is none."""
    by_name = {name_in(spec, row): row for row in rows}
    there = list(cells(spec))
    lacking = {cell.seed for cell in there if cell.name not in by_name}
    whole = {cell.name: by_name[cell.name] for cell in there if cell.seed not in lacking}
    if not whole:
        raise ValueError(f"{spec.name}: with no seed all runs have a row")
    return results_of_rows(spec, whole, (), "")


def page_tables(results: Results, live: pd.DataFrame) -> Iterator[str]:
    """The generated lines of the page: a table per topology, and the cells that are confirmed live.

    ``live``: docs/images/fidelity_field_time_to_the_target.csv.
    """
    drawn, frame = results.spec.figure, against_reference(results)
    for topology in results.spec.axes["topology"]:
        mine, order = frame[frame["topology"] == topology], list(profiles(results, topology)["strategy"])
        apart = [name for name in drawn.hide if (mine["strategy"] == name).any()]
        yield from ("", f"**{drawn.names[topology]}**, {seeds_of(results.runs)}", "", *table(mine, order, apart))
    chosen = most_telling(frame)
    rows = [
        [f"`{row.strategy}`", f"`{row.straggler}`", number(row.ratio), number(live_ratio(live, row))]
        for row in chosen.itertuples()
    ]
    heads = ["strategy", "straggler", "over BSP", "live"]
    yield from ("", "**Cells confirmed live**", "", *markdown_lines(heads, rows))


def live_ratio(live: pd.DataFrame, cell: Any) -> float:
    """The median live time of a ``cell`` (``straggler``, ``strategy``) over BSP's; NaN if it was not run live.

    Infinite if any run missed the target: the table has a count then instead of a time.
    """
    times = live[live["straggler"] == cell.straggler].set_index("strategy")["live (s)"]
    if not {cell.strategy, REFERENCE} <= {*times.index}:
        return nan
    own, base = (pd.to_numeric(times[name], errors="coerce") for name in (cell.strategy, REFERENCE))
    return inf if isnan(own) else own / base


def against_reference(results: Results) -> pd.DataFrame:
    """One row per topology, pattern and strategy: medians over the seeds.

    ``ratio``: time to the target over BSP's under the same plan, infinite if it was never reached; ``samples``: applied
    samples until then over BSP's; ``dropped_frac``: of all gradients.
    """
    keys = ["topology", "straggler", "seed"]
    runs = results.runs.assign(samples=results.runs["throughput"] * results.runs["target_s"])
    base = runs[runs["strategy"] == REFERENCE].set_index(keys)[["target_s", "samples"]]
    both = runs.join(base.add_suffix("_base"), on=keys)
    both = both.assign(ratio=both["target_s"] / both["target_s_base"], samples=both["samples"] / both["samples_base"])
    groups = both.groupby(["topology", "straggler", "strategy"], sort=False)
    return groups[["ratio", "samples", "dropped_frac"]].agg(median).reset_index()


def table(frame: pd.DataFrame, order: Sequence[str], apart: Sequence[str] = ()) -> list[str]:
    """The lines of one topology's table, the strategies in this order; the shortest times of a column are bold.

    A ratio is the median over the patterns of its column, samples and dropped gradients over all patterns. Strategies
    ``apart`` come last and are never bold.
    """
    names = [*order, *apart]
    columns: dict[str, dict[str, float]] = {}
    for kind, patterns in KINDS.items():
        mine = frame[frame["straggler"].isin(patterns)]
        if len(mine):
            columns[kind] = {name: median(mine.loc[mine["strategy"] == name, "ratio"]) for name in names}
    least = {kind: min(found[name] for name in order) for kind, found in columns.items()}
    rows = []
    for name in names:
        mine = frame[frame["strategy"] == name]
        ratios = [mark_best(found[name], nan if name in apart else least[kind]) for kind, found in columns.items()]
        samples, dropped = median(mine["samples"].dropna()), median(mine["dropped_frac"].dropna())
        rows.append([link_of(name), *ratios, number(samples), f"{100 * dropped:.0f}"])
    return markdown_lines(["method", *columns, "samples", "dropped (%)"], rows)


def most_telling(frame: pd.DataFrame) -> pd.DataFrame:
    """The cells that live runs should confirm first: the extremes, which decide what a reader concludes.

    In turn the shortest and the longest time over BSP's among the cells that are left; of a strategy one cell, of a
    pattern ``MOST_OF_ONE``. A target that was never reached is the longest; of equal ones the first row counts.
    """
    frame = frame[(frame["topology"] == SERVERS) & ~frame["straggler"].isin(ON_HOSTS)].reset_index(drop=True)
    left = frame[(frame["strategy"] != REFERENCE) & frame["ratio"].notna()]
    found: list[int] = []
    while len(found) < CELLS and len(left):
        ratios = left["ratio"]
        place = int(ratios.idxmax() if len(found) % 2 else ratios.idxmin())
        found.append(place)
        counts = frame.loc[found, "straggler"].value_counts()
        full = counts.index[counts >= MOST_OF_ONE]
        left = left[(left["strategy"] != frame.at[place, "strategy"]) & ~left["straggler"].isin(full)]
    return frame.loc[found].sort_values("ratio", kind="stable")


def link_of(name: str) -> str:
    """The strategy's name as a link to its card."""
    return f"[{shown_name(name)}](methods/{ABOUT[name].card or name}.md)"


def mark_best(ratio: float, least: float) -> str:
    """The ratio, bold if it is as good as the ``least`` of its column; NaN: it is not compared with that."""
    return f"**{number(ratio)}**" if ratio <= (1.0 + NEAR_FRAC) * least else number(ratio)


def number(ratio: float) -> str:
    """Two digits behind the point; ``never`` for infinity, a dash for NaN."""
    return DASH if isnan(ratio) else "never" if isinf(ratio) else f"{ratio:.2f}"
