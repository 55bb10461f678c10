"""Tables: text with separators (CSV, TSV) or Parquet, with a row per rank and step, or a column per rank."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.logs.cells import has_commas, numbers, whole_numbers
from analysis.logs.limits import MOST_ROWS
from analysis.logs.step_log import LogError, StepLog, gather
from analysis.logs.table_file import TableFile
from analysis.logs.units import unit_of, unit_remark
from reading.errors import shown

SHOWN = 12
"""So many column names in a message."""
TIMES = ("seconds", "compute", "comm", "data", "start")
NUMBERS = ("step", *TIMES, "samples")
FEWEST = 3
"""Columns that every table needs."""
EXTREMES = ("__MIN", "__MAX")
"""Ends of columns that Weights & Biases adds to those of times."""


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
    is known of transfers and barriers. What a ``data`` column says of loading is own work, too.

    Args:
        path: one for which :func:`analysis.logs.table_file.is_table` holds; a text has a header.
        columns: their names.
        unit_s: seconds per unit of all times; None: what the columns' names say (``_ms``), else seconds.

    Raises:
        LogError: it cannot be read, or a column or a value is missing or impossible.
    """
    table = TableFile(path)
    wanted = {field: name for field, name in columns._asdict().items() if name is not None}
    remarks = list[str]()
    if by_rank := _columns_of_ranks(table.names, wanted):
        rows = _wide(table, wanted["step"], by_rank, remarks)
        wanted["seconds"] = by_rank[0]
    else:
        _refuse_missing(path, wanted, table.names)
        rows = _long(table, wanted, remarks)
    for name in TIMES:
        if name in rows:
            rows[name] *= unit_of(wanted[name]) if unit_s is None else unit_s
            usual = float(rows[name].median()) if name != "start" and len(rows) else 0.0
            if unit_s is None and (remark := unit_remark(wanted[name], usual)):
                remarks.append(remark)
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


def _long(table: TableFile, wanted: dict[str, str], remarks: list[str]) -> pd.DataFrame:
    """A row per rank and step, with the names of ``wanted``."""
    frames, commas = [], set[str]()
    for first, piece in table.pieces(list(dict.fromkeys(wanted.values()))):
        rows = pd.DataFrame({field: piece[name] for field, name in wanted.items()})
        for field, name in wanted.items():
            if field in NUMBERS:
                rows[field] = _numbers(table, name, piece[name], first, commas)
            else:
                _refuse_empty(table.path, name, piece[name], first)
                rows[field] = piece[name].astype("str").str.strip().astype("category")
        rows["step"] = whole_numbers(table.path, wanted["step"], rows["step"], first)
        frames.append(rows)
    _refuse_no_rows(table, frames)
    remarks += _said_of_commas(commas)
    for field in ("rank", "host"):
        if field in wanted:
            names = pd.api.types.union_categoricals([frame[field] for frame in frames])
            places = np.split(names.codes, np.cumsum([len(frame) for frame in frames])[:-1])
            for frame, codes in zip(frames, places, strict=True):
                frame[field] = pd.Categorical.from_codes(codes, dtype=names.dtype)
    return pd.concat(frames, ignore_index=True)


def _wide(table: TableFile, step: str, by_rank: Sequence[str], remarks: list[str]) -> pd.DataFrame:
    """A row per step with a column per rank, as rows per rank and step; a rank without a value misses that step."""
    places = _differing_numbers(by_rank)
    frames, commas, count = [], set[str](), 0
    for first, piece in table.pieces([step, *by_rank]):
        steps = whole_numbers(table.path, step, _numbers(table, step, piece[step], first, commas), first)
        for rank, name in zip(places, by_rank, strict=True):
            known = piece[name].notna()
            seconds = _numbers(table, name, piece.loc[known, name], first, commas)
            frames.append(pd.DataFrame({"rank": rank, "step": steps[known], "seconds": seconds}))
            count += len(seconds)
            if count > MOST_ROWS:
                raise LogError(f"{table.path}: has more than {MOST_ROWS:,} steps of ranks; give fewer of them")
    _refuse_no_rows(table, frames)
    remarks.append(f"{len(by_rank)} columns such as {shown(by_rank[0])} count as the times of a rank each")
    remarks += _said_of_commas(commas)
    return pd.concat(frames, ignore_index=True)


def _refuse_no_rows(table: TableFile, frames: Sequence[pd.DataFrame]) -> None:
    """A Parquet file may have columns and no piece at all."""
    if not frames:
        raise LogError(f"{table.path}: has no rows; give the table of a job that has logged its steps")


def _columns_of_ranks(names: Sequence[str], wanted: dict[str, str]) -> list[str]:
    """Columns whose names differ by one number only, if the table has neither ranks nor seconds but those."""
    if {wanted["rank"], wanted["seconds"]} & set(names) or wanted["step"] not in names or len(wanted) > FEWEST:
        return []
    alike: dict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        if name != wanted["step"] and not name.endswith(EXTREMES) and re.search("[0-9]", name):
            alike[re.sub("[0-9]+", "0", name)].append(name)
    groups = [group for group in alike.values() if len(group) > 1]
    return groups[0] if len(groups) == 1 else []


def _differing_numbers(names: Sequence[str]) -> list[str]:
    """What tells names apart that are alike but for their numbers."""
    numbers_of = [re.findall("[0-9]+", name) for name in names]
    differing = [place for place, column in enumerate(zip(*numbers_of, strict=True)) if len(set(column)) > 1]
    return [".".join(each[place] for place in differing) for each in numbers_of]


def _numbers(table: TableFile, name: str, cells: pd.Series, first: int, commas: set[str]) -> pd.Series:
    decimal_comma = table.separator not in ("", ",")
    if decimal_comma and has_commas(cells):
        commas.add(name)
    return numbers(table.path, name, cells, first, decimal_comma=decimal_comma)


def _said_of_commas(names: set[str]) -> list[str]:
    return [f"{', '.join(map(shown, sorted(names)))}: a comma counts as the decimal point"] if names else []


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


def _refuse_missing(path: Path, wanted: dict[str, str], names: Sequence[str]) -> None:
    """Name all columns that are missing at once."""
    missing = {field: name for field, name in wanted.items() if name not in names}
    if missing:
        have = ", ".join(map(shown, names[:SHOWN]))
        many = len(missing) > 1
        flags = ", ".join(f"--{field}" for field in missing)
        what = f"column{'s' if many else ''} {', '.join(missing.values())}; {flags} name{'' if many else 's'}"
        form = ": a row per rank and step is needed, or a column per rank" if "rank" in missing else ""
        raise LogError(f"{path}: has no {what} {'them' if many else 'it'}. It has {have}{form}")


def _refuse_empty(path: Path, name: str, cells: pd.Series, first: int) -> None:
    if cells.isna().any():
        row = first + int(np.flatnonzero(cells.isna())[0])
        raise LogError(f"{path}: row {row}, column {name}: is empty; every row needs its {name}, so leave it out")
