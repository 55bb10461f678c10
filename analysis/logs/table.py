"""Tables: text with separators (CSV, TSV; compressed, too) or Parquet, with a row per rank and step."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.logs.step_log import LogError, StepLog, gather

ENDINGS = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
SEPARATORS = ",;\t"
"""Of a text, whichever its header has most of: programs of some countries write semicolons."""
SHOWN = 12
"""So many column names in a message."""
UNITS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds per unit that the last word of a column's name says, as in ``step_time_ms``."""
TIMES = ("seconds", "compute", "comm", "start")


class Columns(NamedTuple):
    """Names of the columns; None: the table has none of that kind."""

    rank: str = "rank"
    step: str = "step"
    seconds: str = "seconds"
    compute: str | None = None
    comm: str | None = None
    start: str | None = None
    host: str | None = None
    samples: str | None = None


def is_table(path: Path) -> bool:
    """Whether its name is that of a table."""
    return path.name.lower().endswith(ENDINGS)


def read_table(path: Path, columns: Columns, unit_s: float | None = None) -> StepLog:
    """A row per rank and step; other columns are ignored.

    ``seconds`` is the time of the step at this rank. With a ``compute`` column that is the rank's own work, with a
    ``comm`` column its own work is the rest of ``seconds``; without either, ``seconds`` are its own work, and nothing
    is known of transfers and barriers.

    Args:
        path: one for which :func:`is_table` holds; a text has a header.
        columns: their names.
        unit_s: seconds per unit of all times; None: what the columns' names end with (``_ms``), else seconds.

    Raises:
        LogError: it cannot be read, or a column or a value is missing or impossible.
    """
    frame = _read(path)
    wanted = {field: name for field, name in columns._asdict().items() if name is not None}
    _refuse_missing(path, wanted, frame)
    rows = pd.DataFrame({field: frame[name] for field, name in wanted.items()})
    for name in ("step", "seconds", "compute", "comm", "start", "samples"):
        if name in rows:
            rows[name] = _numbers(path, str(wanted[name]), rows[name])
    remarks = []
    for name in TIMES:
        if name in rows:
            factor = unit_of(str(wanted[name])) if unit_s is None else unit_s
            rows[name] *= factor
            if unit_s is None and factor != 1.0:
                remarks.append(f"{wanted[name]}: in units of {factor:g} s by its name; --unit says otherwise")
    _refuse_empty(path, rows)
    own_s = rows["compute"] if "compute" in rows else rows["seconds"] - rows["comm"] if "comm" in rows else None
    split = own_s is not None
    rows["own_s"] = rows["seconds"] if own_s is None else own_s
    _refuse_timeless(path, rows, columns)
    rows = rows.rename(columns={"comm": "comm_s", "start": "begin_s"})
    if split:
        rows["round_s"] = rows["seconds"]
        if "comm_s" not in rows:
            rows["comm_s"] = rows["seconds"] - rows["own_s"]
    if not split:
        others = ", ".join(str(name) for name in frame if name not in wanted.values())
        hint = f" (of its other columns, {others}, --compute or --comm may name one)" if others else ""
        remarks.append(f"the seconds count as each rank's own work: barriers and transfers are not known{hint}")
    job = {"global_batch_samples": int(rows.groupby("step")["samples"].sum().median())} if "samples" in rows else {}
    return gather(str(path), rows, remarks=tuple(remarks), job=job)


def unit_of(name: str) -> float:
    """Seconds per unit of a column of times, by its name."""
    return UNITS.get(re.split(r"[^A-Za-z]", name.rstrip(")] "))[-1].lower(), 1.0)


def _refuse_missing(path: Path, wanted: dict[str, str], frame: pd.DataFrame) -> None:
    """Name all columns that are missing at once."""
    missing = {field: name for field, name in wanted.items() if name not in frame}
    if missing:
        have = ", ".join(map(str, list(frame)[:SHOWN]))
        many = len(missing) > 1
        flags = ", ".join(f"--{field}" for field in missing)
        what = f"column{'s' if many else ''} {', '.join(missing.values())}; {flags} name{'' if many else 's'}"
        raise LogError(f"{path}: has no {what} {'them' if many else 'it'}. It has {have}")


def _read(path: Path) -> pd.DataFrame:
    try:
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, sep=_separator(path), skipinitialspace=True)
    except OSError as error:
        raise LogError(f"{path}: cannot be read ({(error.strerror or 'broken').lower()})") from None
    except UnicodeDecodeError:
        raise LogError(f"{path}: cannot be read (it is not UTF-8 text)") from None
    except pd.errors.EmptyDataError:
        raise LogError(f"{path}: is empty") from None
    except (pd.errors.ParserError, ValueError, EOFError) as error:
        raise LogError(f"{path}: is not a table ({' '.join(str(error).split())})") from None


def _separator(path: Path) -> str:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        head = file.readline()
    return max(SEPARATORS, key=head.count)  # the first of equals: a comma


def _numbers(path: Path, name: str, cells: pd.Series) -> pd.Series:
    found = pd.to_numeric(cells, errors="coerce").astype("float64")
    bad = ~np.isfinite(found)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise LogError(f"{path}: row {row + 1}, column {name}, {cells.tolist()[row]!r}: must be a finite number")
    return found


def _refuse_empty(path: Path, rows: pd.DataFrame) -> None:
    for name in ("rank", "host"):
        if name in rows and rows[name].isna().any():
            row = int(np.flatnonzero(rows[name].isna())[0])
            raise LogError(f"{path}: row {row + 1}, column {name}: is empty; every row needs its {name}")


def _refuse_timeless(path: Path, rows: pd.DataFrame, columns: Columns) -> None:
    bad = ~(rows["own_s"] > 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        what = f"{columns.seconds} less {columns.comm}" if columns.comm and not columns.compute else "its seconds"
        raise LogError(f"{path}: row {row + 1}, rank {rows['rank'].iloc[row]}: {what} must be more than 0")
