"""Achieved and planned disturbance, for every disturbance of the plan."""

from __future__ import annotations

from math import nan
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.records.nodes import parse_node

KINDS = ("delay", "slowdown")
"""Kinds whose added seconds are known; for the others only hits are counted."""
NO_WORK = np.zeros((3, 0))


class _Hits(NamedTuple):
    """Work of one target: when it was issued, the seconds planned per row of the plan, the total seconds achieved."""

    issued_s: np.ndarray
    planned_s: np.ndarray
    """(rows of the plan, work items)"""
    active: np.ndarray
    achieved_s: np.ndarray
    """(rows of the plan,)"""
    reported_s: np.ndarray
    """(rows of the plan,): the planned seconds of the work that ``achieved_s`` is about."""


def achieved(
    plan: pd.DataFrame, iterations: pd.DataFrame, updates: pd.DataFrame, server_busy: pd.DataFrame
) -> pd.DataFrame:
    """The plan with what was achieved, one row per disturbance.

    Adds ``hits`` (iterations of the worker, or updates of the server, that it disturbed), ``planned_s`` (seconds that
    should have been added to these), ``achieved_s`` (seconds measured), ``reported_s`` (the part of ``planned_s`` that
    was measured: what a server has not reported is none) and ``first_effect_s`` (when the first was issued). Where
    windows overlap, measured seconds are divided in proportion to the planned ones. Targets other than workers and
    servers have no hits.
    """
    hits, known = np.zeros(len(plan), dtype="int64"), plan["kind"].isin(KINDS).to_numpy()
    planned_s, achieved_s, reported_s, first_s = (np.full(len(plan), nan) for _ in range(4))
    works = _by_worker(iterations)
    for target, places in plan.groupby("target").indices.items():
        node, rows = parse_node(str(target)), plan.iloc[places]
        if node.role == "worker":
            found = _worker(rows, works.get(node.number, NO_WORK))
        elif node.role == "server":
            found = _server(rows, updates, server_busy, node.number)
        else:
            continue
        hits[places] = found.active.sum(axis=1)
        planned_s[places] = np.where(known[places], found.planned_s.sum(axis=1), nan)
        achieved_s[places] = np.where(known[places], found.achieved_s, nan)
        reported_s[places] = np.where(known[places], found.reported_s, nan)
        first_s[places] = [found.issued_s[active].min() if active.any() else nan for active in found.active]
    found_s = {"planned_s": planned_s, "achieved_s": achieved_s, "reported_s": reported_s, "first_effect_s": first_s}
    return plan.assign(hits=hits, **found_s)


def _by_worker(iterations: pd.DataFrame) -> dict[int, np.ndarray]:
    """Issue, computing and injected seconds of every iteration with samples, float64 [3, iterations], by worker."""
    rows = np.flatnonzero(iterations["samples"].to_numpy() > 0)
    workers = iterations["worker"].to_numpy()[rows]
    order = np.argsort(workers, kind="stable")
    columns = np.stack([iterations[name].to_numpy()[rows[order]] for name in ("issued_s", "compute_s", "injected_s")])
    numbers, starts = np.unique(workers[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(columns, starts[1:], axis=1), strict=True)) if len(rows) else {}


def _worker(rows: pd.DataFrame, work: np.ndarray) -> _Hits:
    issued, compute_s, injected_s = work
    active, planned = _planned(rows, issued, compute_s - injected_s)
    return _Hits(issued, planned, active, _share(planned) @ injected_s, planned.sum(axis=1))


def _server(rows: pd.DataFrame, updates: pd.DataFrame, server_busy: pd.DataFrame, server: int) -> _Hits:
    issued = updates["t"].to_numpy()
    active, planned = _planned(rows, issued, np.zeros(len(issued)))
    notes = server_busy[server_busy["server"] == server]
    done, reported = np.zeros(len(rows)), np.zeros(len(rows))
    for note in notes.itertuples():
        # the note covers the server's last `updates` updates; after a rollback a version occurs twice
        last = np.flatnonzero((updates["version"] == note.version) & (updates["t"] <= note.t))
        if len(last):
            covered = planned[:, max(0, last[-1] + 1 - note.updates) : last[-1] + 1].sum(axis=1, keepdims=True)
            done += _share(covered)[:, 0] * note.injected_s
            reported += covered[:, 0]
    return _Hits(issued, planned, active, done, reported)


def _planned(rows: pd.DataFrame, issued_s: np.ndarray, own_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows, work items): whether the window was open for it, and the seconds that it should have added."""
    start, end, magnitude = (
        rows[name].to_numpy(dtype="float64")[:, None] for name in ("start_s", "end_s", "magnitude")
    )
    active = (start <= issued_s) & (issued_s < end)
    added = np.where((rows["kind"] == "slowdown").to_numpy()[:, None], magnitude * own_s, magnitude)
    known = rows["kind"].isin(KINDS).to_numpy()[:, None]
    return active, np.where(active & known, added, 0.0)


def _share(planned: np.ndarray) -> np.ndarray:
    """Each row's part of the planned seconds of a column; zero if nothing was planned."""
    total = planned.sum(axis=0)
    share: np.ndarray = np.divide(planned, total, out=np.zeros_like(planned), where=total > 0)
    return share
