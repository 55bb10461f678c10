"""Achieved and planned disturbance, for every disturbance of the plan."""

from __future__ import annotations

from math import nan
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.records.nodes import parse_node

KINDS = ("delay", "slowdown")
"""Kinds whose added seconds are known; for the others only hits are counted."""
NO_WORK = np.zeros((4, 0))


class _Pairs(NamedTuple):
    """A window of the plan and work for which it was open, each pair once; a long job has few pairs of all possible."""

    num_rows: int
    row: np.ndarray
    """Window: row of the plan, by pair."""
    item: np.ndarray
    """Work: its place, by pair."""
    planned_s: np.ndarray
    """Seconds that the window should have added to the work."""

    def per_row(self, values: np.ndarray | None = None, of: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Sums over the pairs of each row (``of``: of these pairs only); without values, how many pairs it has."""
        sums: np.ndarray = np.bincount(self.row[of], values, minlength=self.num_rows)
        return sums if values is None else sums.astype("float64")  # without any pair they are whole numbers


class _Hits(NamedTuple):
    """The hits on one target, for each of its rows of the plan."""

    hits: np.ndarray
    planned_s: np.ndarray
    achieved_s: np.ndarray
    reported_s: np.ndarray
    """The planned seconds of the work that ``achieved_s`` is about."""
    first_s: np.ndarray
    """When the first work was issued; NaN if there was none."""


def achieved_effects(
    plan: pd.DataFrame, iterations: pd.DataFrame, updates: pd.DataFrame, server_busy: pd.DataFrame
) -> pd.DataFrame:
    """The plan with the achieved effects, one row per disturbance.

    Adds ``hits`` (iterations of the worker, or updates of the server, that it disturbed), ``planned_s`` (seconds that
    should have been added to these), ``achieved_s`` (seconds measured), ``reported_s`` (the part of ``planned_s`` that
    was measured; servers may not have reported all of it) and ``first_effect_s`` (when the first was issued). Where
    windows overlap, measured seconds are divided in proportion to the planned ones. Parts of a worker have the hits of
    the worker, but the seconds that they add depend on all its parts. Other targets have no hits.
    """
    inside = plan["target"].map(lambda text: parse_node(text).is_inside).to_numpy(dtype=bool)
    hits, known = np.zeros(len(plan), dtype="int64"), plan["kind"].isin(KINDS).to_numpy() & ~inside
    planned_s, achieved_s, reported_s, first_s = (np.full(len(plan), nan) for _ in range(4))
    works = _by_worker(iterations)
    for target, places in plan.groupby("target").indices.items():
        node, rows = parse_node(str(target)), plan.iloc[places]
        if node.role == "worker" or node.is_inside:
            found = _worker(rows, works.get(node.number, NO_WORK))
        elif node.role == "server":
            found = _server(rows, updates, server_busy, node.number)
        else:
            continue
        hits[places] = found.hits
        planned_s[places] = np.where(known[places], found.planned_s, nan)
        achieved_s[places] = np.where(known[places], found.achieved_s, nan)
        reported_s[places] = np.where(known[places], found.reported_s, nan)
        first_s[places] = found.first_s
    found_s = {"planned_s": planned_s, "achieved_s": achieved_s, "reported_s": reported_s, "first_effect_s": first_s}
    return plan.assign(hits=hits, **found_s)


def _by_worker(iterations: pd.DataFrame) -> dict[int, np.ndarray]:
    """Issue, computing and injected seconds, and the computed part, of every iteration with samples, by worker.

    Float64 [4, iterations]. An iteration that ended early had that part of its delays.
    """
    rows = np.flatnonzero(iterations["samples"].to_numpy() > 0)
    workers = iterations["worker"].to_numpy()[rows]
    order = np.argsort(workers, kind="stable")
    columns = np.stack([iterations[name].to_numpy()[rows[order]] for name in ("issued_s", "compute_s", "injected_s")])
    samples, cut = (iterations[name].to_numpy()[rows[order]] for name in ("samples", "cut_samples"))
    columns = np.vstack([columns, samples / (samples + cut)])
    numbers, starts = np.unique(workers[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(columns, starts[1:], axis=1), strict=True)) if len(rows) else {}


def _worker(rows: pd.DataFrame, work: np.ndarray) -> _Hits:
    issued, compute_s, injected_s, part = work
    pairs = _pair_with_plan(rows, issued, compute_s - injected_s, part)
    total_s = np.bincount(pairs.item, pairs.planned_s, minlength=len(issued))[pairs.item]
    done = pairs.per_row(_share(pairs.planned_s, total_s) * injected_s[pairs.item])
    planned_s = pairs.per_row(pairs.planned_s)
    return _Hits(pairs.per_row(), planned_s, done, planned_s, _first(pairs, issued))


def _server(rows: pd.DataFrame, updates: pd.DataFrame, server_busy: pd.DataFrame, server: int) -> _Hits:
    issued = updates["t"].to_numpy()
    pairs = _pair_with_plan(rows, issued, np.zeros(len(issued)), np.ones(len(issued)))
    by_item = np.argsort(pairs.item, kind="stable")
    items = pairs.item[by_item]
    notes = server_busy[server_busy["server"] == server]
    done, reported = np.zeros(len(rows)), np.zeros(len(rows))
    for note in notes.itertuples():
        # the note covers the server's last `updates` updates; after a rollback a version occurs twice
        last = np.flatnonzero((updates["version"] == note.version) & (updates["t"] <= note.t))
        if len(last):
            begin, end = np.searchsorted(items, (max(0, last[-1] + 1 - note.updates), last[-1] + 1))
            of = by_item[begin:end]
            covered = pairs.per_row(pairs.planned_s[of], of)
            done += _share(covered, np.full(len(rows), covered.sum())) * note.injected_s
            reported += covered
    return _Hits(pairs.per_row(), pairs.per_row(pairs.planned_s), done, reported, _first(pairs, issued))


def _pair_with_plan(rows: pd.DataFrame, issued_s: np.ndarray, own_s: np.ndarray, part: np.ndarray) -> _Pairs:
    """Windows that were open when work was issued, and the seconds that each should have added."""
    start, end, magnitude = (rows[name].to_numpy(dtype="float64") for name in ("start_s", "end_s", "magnitude"))
    order = np.argsort(issued_s, kind="stable")
    first, behind = np.searchsorted(issued_s[order], start), np.searchsorted(issued_s[order], end)
    count = np.maximum(behind - first, 0)
    row = np.repeat(np.arange(len(rows)), count)
    item = order[np.arange(len(row)) + np.repeat(first - (np.cumsum(count) - count), count)]
    added = magnitude[row] * np.where((rows["kind"] == "slowdown").to_numpy()[row], own_s[item], part[item])
    return _Pairs(len(rows), row, item, np.where(rows["kind"].isin(KINDS).to_numpy()[row], added, 0.0))


def _first(pairs: _Pairs, issued_s: np.ndarray) -> np.ndarray:
    """When the first work of each row was issued; NaN if there was none."""
    first = np.full(pairs.num_rows, nan)
    np.fmin.at(first, pairs.row, issued_s[pairs.item])
    return first


def _share(planned_s: np.ndarray, total_s: np.ndarray) -> np.ndarray:
    """The part that planned seconds are of a total; zero if nothing was planned."""
    share: np.ndarray = np.divide(planned_s, total_s, out=np.zeros_like(planned_s), where=total_s > 0)
    return share
