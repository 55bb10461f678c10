"""Tables of metrics as trackers write them: a column per metric with empty cells, or a row per metric and step."""

from __future__ import annotations

import pandas as pd

from analysis.logs.cells import numbers_or_nan
from analysis.logs.limits import MOST_ROWS
from analysis.logs.metrics import clock_unit
from analysis.logs.roles import Roles, roles_of
from analysis.logs.step_log import LogError
from analysis.logs.table_file import TableFile
from analysis.logs.trace_folder import RANK

BY_NAME = (("key", "value"), ("metric", "value"), ("tag", "value"), ("name", "value"))
"""Columns of tables with a row per value: MLflow's, TensorBoard's and others'."""


def metric_rows(table: TableFile) -> pd.DataFrame | None:
    """A row per value: ``rank``, ``step``, ``name``, ``value``; None: no column has steps, or ranks have no times.

    Of a column per metric only times and clocks are read, and all columns if there are none.
    """
    roles = roles_of(table.names)
    timed = roles.whole or roles.clock
    if roles.step is None or (not timed and (roles.rank or any(RANK.search(name) for name in table.names))):
        return None
    named = next((pair for pair in BY_NAME if set(pair) <= set(table.names)), None)
    return _by_name(table, roles, *named) if named else _by_column(table, roles)


def _by_name(table: TableFile, roles: Roles, name: str, value: str) -> pd.DataFrame:
    clock = list(roles.clock[:1])
    wanted = list(dict.fromkeys([str(roles.step), name, value, *clock]))
    rows = pd.concat([piece for _, piece in table.pieces(wanted)], ignore_index=True)
    long = pd.DataFrame({"rank": "0", "step": numbers_or_nan(rows[roles.step]), "name": rows[name].astype("str")})
    long["value"] = numbers_or_nan(rows[value])
    if clock:
        moments = numbers_or_nan(rows[clock[0]])
        long["clock_s"] = moments * clock_unit(clock[0], moments)
    return long.dropna(subset=["step", "value"])


def _by_column(table: TableFile, roles: Roles) -> pd.DataFrame:
    timed = [*roles.whole, *roles.loading, *roles.sending, *roles.computing, *roles.clock]
    others = [name for name in table.names if name not in (roles.step, roles.rank)]
    keep = timed or others
    ids = [name for name in (roles.step, roles.rank) if name is not None]
    frames = list[pd.DataFrame]()
    for first, piece in table.pieces(list(dict.fromkeys([*ids, *keep]))):
        frames += [metric_column(piece, roles, name) for name in keep]
        if len(keep) * (first + len(piece)) > MOST_ROWS and timed:
            raise LogError(
                f"{table.path}: has more than {MOST_ROWS:,} times, the most that are read; give a part of it"
            )
        if not timed:
            break  # without any time the names are enough
    long = pd.concat(frames) if frames else pd.DataFrame(columns=["rank", "step", "name", "value"])
    return long.sort_index(kind="stable").dropna(subset=["step", "value"])


def metric_column(piece: pd.DataFrame, roles: Roles, name: str) -> pd.DataFrame:
    """A row per value of the column ``name``: ``rank``, ``step``, ``name``, ``value``."""
    rank = piece[roles.rank] if roles.rank else "0"
    return pd.DataFrame(
        {
            "rank": rank,
            "step": numbers_or_nan(piece[str(roles.step)]),
            "name": name,
            "value": numbers_or_nan(piece[name]),
        }
    )
