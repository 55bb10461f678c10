"""The part of the experiment ``harm`` that was asked for, and its page."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec
import pandas as pd
from rich.console import Console

from analysis.experiments.results import Results, base_of
from analysis.experiments.spec import Also, Spec, load_spec
from analysis.figures.experiment.map import draw
from analysis.files import write_file
from analysis.measures.harm import CELL, REFERENCE, Reasons, cells_of, cells_without_reason, idle_reasons, pair_with_bsp
from analysis.reports.harm import page, tables
from runtime.errors import FAILED
from stragglab.grids.choices import choices
from stragglab.grids.experiments import SPECS
from stragglab.grids.times import time_cells

COLUMNS = [*CELL, "seed", "outcome", "jct_s", "bsp_s", "note"]
"""Columns of the CSV next to a page."""
FRONT_WORKERS = 16
"""Workers in the picture on the first page."""
SHOWN = (
    *("asp", "ssp", "backup_workers", "lgc", "dynamic_x", "sync_switch", "star_h", "lb_bsp", "antdt_nd", "mlfabric"),
    *("coding_cyclic", "coding_heter_aware"),
)
"""Its strategies: from no waiting over less waiting and other batches to redundant work."""


@cache
def whole() -> Spec:
    """The description, read once."""
    return load_spec(SPECS / "harm.yaml")


def choose_cells(asked: argparse.Namespace) -> Spec:
    """The experiment with the levels and settings that were asked for, and BSP, which has no setting of a strategy."""
    spec, settings = whole(), {"workers": "cluster.num_workers", "straggler": "straggler", "strategy": "strategy"}
    others = tuple(name for name in asked.strategies if name != REFERENCE)
    levels = dict(zip(CELL, [map(str, asked.workers), asked.stragglers, [REFERENCE, *others]], strict=True))
    sizes = {str(number): size_of(number) for number in asked.workers}
    axes = {
        axis: {
            level: (*spec.axes[axis].get(sizes.get(level, level), ()), f"{settings[axis]}={level}") for level in there
        }
        for axis, there in levels.items()
    }
    theirs = tuple(word for word in asked.overrides if word.startswith("strategy."))
    of_all = tuple(word for word in asked.overrides if word not in theirs)
    also = (
        *(Also({axis: _with_sizes(there, sizes) for axis, there in one.at.items()}, one.settings) for one in spec.also),
        Also({}, of_all),
        Also({"strategy": others}, theirs),
    )
    return msgspec.structs.replace(spec, axes=axes, also=also, seeds=tuple(asked.seeds))


def levels_of(axis: str) -> list[str]:
    """The levels of an axis that are Stragglab's own, without those of the user's project."""
    return [level for level in whole().axes[axis] if axis == "workers" or level in choices(axis)]


def size_of(workers: int) -> str:
    """The listed number of workers whose epochs count for this one: the largest up to it, or else the smallest."""
    known = sorted(map(int, whole().axes["workers"]))
    return str(max((number for number in known if number <= workers), default=known[0]))


def _with_sizes(levels: Sequence[str], sizes: Mapping[str, str]) -> tuple[str, ...]:
    """These levels, and the numbers of workers whose size is among them."""
    return tuple(dict.fromkeys([*levels, *(number for number, size in sizes.items() if size in levels)]))


def jobs_of(asked: argparse.Namespace, console: Console) -> pd.DataFrame:
    """A row per job, with BSP's time in a column of its own; of a page also those that its CSV has of other cells."""
    if asked.redraw:
        return pd.read_csv(asked.report.with_suffix(".csv"))
    spec = choose_cells(asked)
    runs = time_cells(spec, asked.out, asked, console)
    jobs = runs.assign(bsp_s=base_of(spec, runs), workers=runs["workers"].astype(int))[COLUMNS]
    return merge(jobs, asked.report.with_suffix(".csv")) if asked.report else jobs


def merge(jobs: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The jobs, and the other cells' jobs from the file, in the order of the grid."""
    if path.exists():
        old, keys = pd.read_csv(path), pd.MultiIndex.from_frame(jobs[CELL])
        jobs = pd.concat([old[~pd.MultiIndex.from_frame(old[CELL]).isin(keys)], jobs])
    order = {name: place for place, name in enumerate(whole().axes["straggler"])}
    return jobs.sort_values(
        [*CELL, "seed"], key=lambda column: column.map(order) if column.name == "straggler" else column
    ).reset_index(drop=True)


def report(jobs: pd.DataFrame, reasons: Reasons, asked: argparse.Namespace, console: Console) -> int:
    """Print the tables, or write the page with its CSV; returns the exit code."""
    cells = cells_of(pair_with_bsp(jobs))
    for part in tables(cells, reasons):
        console.print(part, soft_wrap=True)
    if asked.report:
        if not asked.redraw:
            write_file(asked.report.with_suffix(".csv"), jobs.to_csv(index=False, float_format="%.4f"))
        picture = asked.report.parent / "images" / f"{asked.report.stem}.png"
        picture.parent.mkdir(exist_ok=True)
        draw_jobs(picture, jobs, dict.fromkeys(jobs["strategy"], ()))
        front = jobs[(jobs["workers"] == FRONT_WORKERS) & jobs["strategy"].isin(SHOWN)]
        if len(front):
            draw_jobs(picture.with_name(f"{picture.stem}_front.png"), front, dict.fromkeys(SHOWN, ()))
        write_file(asked.report, page(whole(), jobs, cells, reasons, picture.name, FRONT_WORKERS))
        console.print(f"{asked.report}", soft_wrap=True)
    bare = cells_without_reason(cells, reasons)
    for cell in bare:
        console.print(f"no reason: {cell} {cell.note}".rstrip(), soft_wrap=True)
    if asked.whole:
        for line in idle_reasons(cells, reasons):
            console.print(f"reason that no cell needs: {line}", soft_wrap=True)
    return FAILED if bare or (jobs["outcome"] == "failed").any() else 0


def draw_jobs(path: Path, jobs: pd.DataFrame, strategies: dict[str, tuple[str, ...]]) -> Path:
    """The figure of the experiment with these rows, of jobs that may be from another page."""
    spec = msgspec.structs.replace(whole(), axes={**whole().axes, "strategy": strategies})
    return draw(path, Results(spec=spec, runs=pair_with_bsp(jobs), metas=[]))
