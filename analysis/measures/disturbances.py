"""Achieved and planned disturbance, for every disturbance of the plan."""

from __future__ import annotations

from math import nan
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.records.nodes import parse_node

KINDS = ("delay", "slowdown")
"""Kinds whose added seconds are known; for the others only hits are counted."""


class _Hits(NamedTuple):
    """Work of one target: when it was issued, the seconds planned per row of the plan, the total seconds achieved."""

    issued_s: np.ndarray
    planned_s: np.ndarray
    """(rows of the plan, work items)"""
    active: np.ndarray
    achieved_s: np.ndarray
    """(rows of the plan,)"""


def achieved(
    plan: pd.DataFrame, iterations: pd.DataFrame, updates: pd.DataFrame, server_busy: pd.DataFrame
) -> pd.DataFrame:
    """The plan with what was achieved, one row per disturbance.

    Adds ``hits`` (iterations of the worker, or updates of the server, that it disturbed), ``planned_s`` (seconds that
    should have been added to these), ``achieved_s`` (seconds measured) and ``first_effect_s`` (when the first was
    issued). Where windows overlap, measured seconds are divided in proportion to the planned ones. Targets other than
    workers and servers have no hits.
    """
    result = plan.assign(hits=0, planned_s=nan, achieved_s=nan, first_effect_s=nan)
    for target, rows in plan.groupby("target"):
        node = parse_node(target)
        if node.role == "worker":
            found = _worker(rows, iterations[(iterations["worker"] == node.number) & (iterations["samples"] > 0)])
        elif node.role == "server":
            found = _server(rows, updates, server_busy, node.number)
        else:
            continue
        known = rows["kind"].isin(KINDS).to_numpy()
        result.loc[rows.index, "hits"] = found.active.sum(axis=1)
        result.loc[rows.index, "planned_s"] = np.where(known, found.planned_s.sum(axis=1), nan)
        result.loc[rows.index, "achieved_s"] = np.where(known, found.achieved_s, nan)
        result.loc[rows.index, "first_effect_s"] = [
            found.issued_s[active].min() if active.any() else nan for active in found.active
        ]
    return result


def _worker(rows: pd.DataFrame, work: pd.DataFrame) -> _Hits:
    issued = work["issued_s"].to_numpy()
    own_s = (work["compute_s"] - work["injected_s"]).to_numpy()
    active, planned = _planned(rows, issued, own_s)
    return _Hits(issued, planned, active, _share(planned) @ work["injected_s"].to_numpy())


def _server(rows: pd.DataFrame, updates: pd.DataFrame, server_busy: pd.DataFrame, server: int) -> _Hits:
    issued = updates["t"].to_numpy()
    active, planned = _planned(rows, issued, np.zeros(len(issued)))
    notes = server_busy[server_busy["server"] == server]
    done = np.zeros(len(rows))
    for note in notes.itertuples():
        # the note covers the server's last `updates` updates; after a rollback a version occurs twice
        last = np.flatnonzero((updates["version"] == note.version) & (updates["t"] <= note.t))
        if len(last):
            covered = planned[:, max(0, last[-1] + 1 - note.updates) : last[-1] + 1].sum(axis=1, keepdims=True)
            done += _share(covered)[:, 0] * note.injected_s
    return _Hits(issued, planned, active, done)


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
