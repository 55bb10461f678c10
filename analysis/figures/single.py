"""The figures of one run: which frame is drawn on which page."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.figures.convergence import draw_convergence
from analysis.figures.distributions import draw_bpt, draw_staleness
from analysis.figures.elastic import draw_elastic
from analysis.figures.modes import draw_modes
from analysis.figures.page import is_painted, new_page, save, save_numbers, styled
from analysis.figures.style import colour_of, looks
from analysis.figures.timeline import (
    draw_restarts,
    draw_segments,
    draw_shares,
    draw_updates,
    draw_windows,
    frame_lanes,
    lane_keys,
)
from analysis.measures import targets, work
from analysis.measures.elastic import is_elastic
from analysis.measures.lanes import caption_of, lane_heights
from analysis.measures.metrics import jct_s
from analysis.measures.modes import modes_over_time
from analysis.measures.segments import bins, excerpt, segments, shares
from analysis.measures.stats import curves
from analysis.records.load import Run
from analysis.records.members import numbers_of
from analysis.records.nodes import worker_name
from analysis.records.provenance import caption


def draw_run(run: Run, folder: Path) -> list[Path]:
    """Draw every figure for which the run has data into ``folder``. Returns the PNGs."""
    about = f"{run.job['strategy']} \N{MIDDLE DOT} {caption([run.meta])}"
    with styled():
        figures = [draw(run, folder, about) for draw in (_convergence, _timeline, _bpt, _staleness, _elastic, _modes)]
    return [figure for figure in figures if figure is not None]


def _convergence(run: Run, folder: Path, about: str) -> Path | None:
    job, label = run.job, run.job["strategy"]
    scored = targets.scores(run.tables.evaluations, job["metric"])
    if not len(scored):
        return None
    target = job.get("target")
    rule = targets.rule_of(job)
    tta = targets.tta_s(scored, target, *rule) if target is not None else nan
    step = targets.tta_step_s(scored, target, *rule) if target is not None else nan
    mark = {"strategy": label, "tta_s": tta, "tta_step_s": step, "missed": int(tta == float("inf")), "runs": 1}
    marks = pd.DataFrame([mark])
    curve = curves([scored], [label])
    if not is_painted():
        return save_numbers(folder / "convergence.png", about, curve)
    page = new_page(2.9, about)
    draw_convergence(page.subplots(), curve, marks, looks([label]), job["metric"], target)
    return save(page, folder / "convergence.png", curve)


def _timeline(run: Run, folder: Path, about: str) -> Path | None:
    place, end_s = _place(run), jct_s(run)
    pieces = segments(_of(run.tables.iterations, place))
    if not len(pieces) or end_s <= 0:
        return None
    start, end = excerpt(run.tables.iterations, run.plan, end_s)
    if end - start >= 0.8 * end_s:
        start, end = 0.0, end_s
    shown = pieces[(pieces["end_s"] > start) & (pieces["start_s"] < end)]
    if not is_painted():
        return save_numbers(folder / "timeline.png", _about(about, run, place), shown)
    lanes, windows = _lanes(run, place)
    panels = 1 if end - start == end_s else 2
    page = new_page((0.62 + 0.29 * len(lanes)) * panels + 0.3, _about(about, run, place))
    *overview, axes = np.atleast_1d(page.subplots(panels, 1))
    for above in overview:
        draw_shares(above, _at(shares(pieces, end_s, bins(pieces, end_s)), place))
        frame_lanes(above, lanes, 0.0, end_s)
        above.set_title("the whole run: shares of every worker's time")
        above.axvspan(start, end, facecolor="none", edgecolor="black", linewidth=0.9, zorder=6)
        axes.set_title("the framed part")
    draw_segments(axes, _at(shown, place))
    draw_updates(axes, run.tables.updates[run.tables.updates["t"].between(start, end)], lane=-1.0)
    frame_lanes(axes, {-1.0: "updates", **lanes}, start, end)
    for each in (*overview, axes):
        draw_windows(each, windows)
        draw_restarts(each, run.tables.restarts, place)
    keys = lane_keys(len(windows) > 0, run.tables.restarts["what"])
    page.legend(handles=keys, loc="outside upper left", ncols=8, columnspacing=1.1, handlelength=1.0)
    return save(page, folder / "timeline.png", shown)


def _place(run: Run) -> dict[int, float]:
    """The lanes of the workers that are drawn."""
    return lane_heights(numbers_of(run, "worker"), run.tables.iterations)


def _of(rows: pd.DataFrame, place: Mapping[int, float]) -> pd.DataFrame:
    """The rows of workers that are drawn."""
    there = rows["worker"].isin(list(place))
    return rows if there.all() else rows[there]


def _at(rows: pd.DataFrame, place: Mapping[int, float]) -> pd.DataFrame:
    """The rows with the worker's lane as ``worker``."""
    return rows.assign(worker=rows["worker"].map(place))


def _about(about: str, run: Run, place: Mapping[int, float]) -> str:
    """The caption, which says who is drawn if some are left out."""
    return " \N{MIDDLE DOT} ".join(filter(None, (about, caption_of(len(place), len(numbers_of(run, "worker"))))))


def _lanes(run: Run, place: Mapping[int, float]) -> tuple[dict[float, str], pd.DataFrame]:
    """Names of the lanes by height, and the plan's windows with the ``lane`` of their target."""
    heights = {worker_name(worker): height for worker, height in place.items()}
    for target in sorted(set(run.plan["target"]) - set(map(worker_name, numbers_of(run, "worker")))):
        heights[target] = float(len(heights))
    names = {height: target.replace(":", " ") for target, height in heights.items()}
    windows = run.plan.assign(lane=run.plan["target"].map(heights))
    return names, windows[windows["lane"].notna()]


def _bpt(run: Run, folder: Path, about: str) -> Path | None:
    place = _place(run)
    rows = work.with_samples(_of(run.tables.iterations, place))[["worker", "iteration", "t", "bpt_s", "injected_s"]]
    if not len(rows):
        return None
    if not is_painted():
        return save_numbers(folder / "bpt.png", _about(about, run, place), rows)
    spread = pd.DataFrame([{"worker": w, **work.quantiles(bpt)} for w, bpt in rows.groupby("worker")["bpt_s"]])
    page = new_page(0.95 + 0.34 * len(spread), _about(about, run, place))
    draw_bpt(page.subplots(), rows, spread, place)
    return save(page, folder / "bpt.png", rows)


def _staleness(run: Run, folder: Path, about: str) -> Path | None:
    tau = work.staleness(run.tables.iterations)
    if not len(tau):
        return None
    counts = tau.value_counts().sort_index()
    histogram = pd.DataFrame(
        {"staleness": counts.index, "grads": counts.to_numpy(), "share": counts.to_numpy() / len(tau)}
    )
    if not is_painted():
        return save_numbers(folder / "staleness.png", about, histogram)
    notes = [f"mean {tau.mean():.2f}", f"largest {tau.max()}", f"{len(tau)} gradients"]
    page = new_page(2.4, about, width_in=4.2)
    draw_staleness(page.subplots(), histogram, colour_of(run.job["strategy"]), notes)
    return save(page, folder / "staleness.png", histogram)


def _elastic(run: Run, folder: Path, about: str) -> Path | None:
    return draw_elastic(folder / "elastic.png", [("", run)], about) if is_elastic(run) else None


def _modes(run: Run, folder: Path, about: str) -> Path | None:
    return draw_modes(folder / "modes.png", run, about) if len(modes_over_time(run)) else None
