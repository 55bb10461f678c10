"""Tables: text with separators (CSV, TSV) or Parquet, with a row per rank and step, or a column per rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.logs.gathering import gather
from analysis.logs.metric_table import metric_rows
from analysis.logs.metrics import read_metrics
from analysis.logs.parts_table import has_parts, read_parts
from analysis.logs.step_log import LogError, StepLog
from analysis.logs.table_file import TableFile
from analysis.logs.table_rows import TIMES, columns_of_ranks, long_rows, wide_rows
from reading.errors import shown
from reading.units import unit_of, unit_remark

FURTHEST_APART = 100.0
"""Steps begin so many times further apart than they take, at most: milliseconds are 1000 times as many as seconds."""
PAI = {"worker", "gpu", "time", "batch_time_norm"}
"""Columns of the mini-batch times that Alibaba published (clusterdata, GPU v2020); ``time`` counts steps."""
OF_RUNS = {"Name", "State", "Created", "Runtime"}
"""Columns of a list of runs, as Weights & Biases exports it."""
NORMALISED = "its times are normalised to at most 1000, so ratios and shares count, and seconds do not"
SHOWN = 12
"""So many column names in a message."""


class Columns(NamedTuple):
    """Names of the columns; None: the table has none of that kind."""

    rank: str = "rank"
    step: str = "step"
    seconds: str = "seconds"
    compute: str | None = None
    comm: str | None = None
    data: str | None = None
    start: str | None = None
    host: str | None = None
    samples: str | None = None


def read_table(path: Path, columns: Columns, unit_s: float | None = None) -> StepLog:
    """A row per rank and step; other columns are ignored. A column per rank, as ``rank0 - time``, is read, too.

    ``seconds`` is the time of the step at this rank. With a ``compute`` column that is the rank's own work, with a
    ``comm`` column its own work is the rest of ``seconds``; without either, ``seconds`` are its own work, and nothing
    is known of transfers and barriers. The loading time of a ``data`` column is own work, too.

    Args:
        path: one for which :func:`analysis.logs.table_file.is_table` holds; a text has a header.
        columns: their names.
        unit_s: seconds per unit of all times; None: what the columns' names say (``_ms``), else seconds.

    Raises:
        LogError: it cannot be read, or a column or a value is missing or impossible.
    """
    table = TableFile(path)
    if columns == Columns() and unit_s is None and has_parts(table):
        return read_parts([path])
    wanted = {field: name for field, name in columns._asdict().items() if name is not None}
    remarks = list[str]()
    if by_rank := columns_of_ranks(table.names, wanted):
        rows = wide_rows(table, wanted["step"], by_rank, remarks)
        wanted["seconds"] = by_rank[0]
    elif found := _otherwise(table, columns, unit_s):
        return found
    else:
        _refuse_missing(path, wanted, table.names)
        rows = long_rows(table, wanted, remarks)
    for name in TIMES:
        if name in rows:
            rows[name] *= unit_of(wanted[name]) if unit_s is None else unit_s
            usual = float(rows[name].median()) if name != "start" and len(rows) else 0.0
            if unit_s is None and (remark := unit_remark(wanted[name], usual)):
                remarks.append(remark)
    if unit_s is None and columns.start is not None:
        _refuse_other_clock(path, rows, columns.start)
    rows = _with_own_work(path, rows, columns)
    if "round_s" not in rows:
        others = (
            ", ".join(shown(name) for name in table.names[:SHOWN] if name not in wanted.values()) if not by_rank else ""
        )
        hint = f" (of its other columns, {others}, --compute or --comm may name one)" if others else ""
        remarks.append(f"the seconds count as each rank's own work: barriers and transfers are not known{hint}")
    job = {"global_batch_samples": int(rows.groupby("step")["samples"].sum().median())} if "samples" in rows else {}
    rest = columns.comm is not None and columns.compute is None
    return gather(str(path), rows, remarks=tuple(remarks), job=job, own_is_rest=rest)


def _otherwise(table: TableFile, columns: Columns, unit_s: float | None) -> StepLog | None:
    """The steps of a table whose columns have other names than the usual ones, if the user has named none.

    Trackers write a column per metric, or a row per metric and step.
    """
    if columns != Columns() or {"rank", "step", "seconds"} <= set(table.names):
        return None
    if set(table.names) >= PAI:
        named = Columns(rank="worker", step="time", seconds="batch_time_norm")
        log = read_table(table.path, named, unit_s or 1.0)
        return replace(log, remarks=(*log.remarks, NORMALISED))
    if set(table.names) >= OF_RUNS:
        raise LogError(
            f"{table.path}: is a list of runs, with a row per run and no steps; export the history of one run (the CSV "
            "of a chart, or run.history())"
        )
    long = metric_rows(table)
    return None if long is None else read_metrics(str(table.path), long, unit_s=unit_s)


def _with_own_work(path: Path, rows: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """With ``own_s``, and what else is known of the step."""
    loading_s = rows.get("data", 0.0)
    own_s = rows["compute"] + loading_s if "compute" in rows else None
    if own_s is None and "comm" in rows:
        own_s = rows["seconds"] - rows["comm"]
    rows["own_s"] = rows["seconds"] if own_s is None else own_s
    bad = ~(rows["own_s"] > 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        what = f"{columns.seconds} less {columns.comm}" if columns.comm and not columns.compute else "its seconds"
        raise LogError(f"{path}: row {row + 1}, rank {shown(rows['rank'].iloc[row])}: {what} must be more than 0")
    rows = rows.rename(columns={"comm": "comm_s", "data": "data_s", "start": "begin_s"})
    if own_s is not None:
        rows["round_s"] = rows["seconds"]
        if "comm_s" not in rows:
            rows["comm_s"] = rows["seconds"] - rows["own_s"]
    return rows


def _refuse_other_clock(path: Path, rows: pd.DataFrame, name: str) -> None:
    """Steps that begin very long after each other, for what they take, are counted in another unit."""
    ordered = rows.sort_values(["rank", "step"], kind="stable")
    since = ordered.groupby("rank", observed=True)[["start", "step"]].diff()
    apart_s = float((since["start"] / since["step"].where(since["step"] > 0)).median())
    usual_s = float(rows["seconds"].median())
    if apart_s > FURTHEST_APART * usual_s:
        raise LogError(
            f"{path}: column {name}: steps begin {apart_s:.4g} s apart and take {usual_s:.4g} s; if it is in another "
            f"unit, call it {name}_ms, {name}_us or {name}_ns"
        )


def _refuse_missing(path: Path, wanted: dict[str, str], names: Sequence[str]) -> None:
    """Name all columns that are missing at once."""
    missing = {field: name for field, name in wanted.items() if name not in names}
    if missing:
        have = ", ".join(map(shown, names[:SHOWN]))
        many = len(missing) > 1
        flags = ", ".join(f"--{field}" for field in missing)
        what = f"column{'s' if many else ''} {', '.join(missing.values())}; {flags} name{'' if many else 's'}"
        form = ": a row per rank and step is needed, or a column per rank" if "rank" in missing else ""
        form = ": columns must be apart by commas, semicolons, tabs or |" if len(names) == 1 else form
        raise LogError(f"{path}: has no {what} {'them' if many else 'it'}. It has {have}{form}")
