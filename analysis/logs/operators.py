"""Tables of operators: a row for each operation of each rank in each step, as profilers of hybrid jobs write them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.logs.cells import has_commas, numbers, whole_numbers
from analysis.logs.limits import MOST_SECONDS, MOST_STEP
from analysis.logs.step_log import LogError
from analysis.logs.table_file import TableFile, is_table

WHOLE = ("dp_rank", "stage", "step", "seq_id")
TIMES = ("start_ts", "duration")
COLUMNS = (*WHOLE, "optype", *TIMES)
CHUNK = "mc"
"""The number of a stage's chunk of layers, in tables that have it; negative for other operations."""


def is_operators(path: Path) -> bool:
    """Whether the file is a table that has the columns of operators."""
    with contextlib.suppress(LogError, OSError):
        return path.is_file() and is_table(path) and set(COLUMNS) <= set(TableFile(path).names)
    return False


def read_operators(path: Path) -> pd.DataFrame:
    """The operators, with the columns ``COLUMNS``; other columns are ignored. Times are seconds.

    Source of the format: the traces of ByteDance-Seed/StragglerAnalysis (OSDI 2025).

    Raises:
        LogError: the table cannot be read, or a value is missing or impossible; one line with the cure.
    """
    table = TableFile(path)
    chunk = [CHUNK] if CHUNK in table.names else []
    pieces = [_check_piece(table, piece, first) for first, piece in table.pieces([*COLUMNS, *chunk])]
    if not any(len(piece) for piece in pieces):
        raise LogError(f"{path}: has no rows")
    return pd.concat(pieces, ignore_index=True)


def _check_piece(table: TableFile, piece: pd.DataFrame, first: int) -> pd.DataFrame:
    path, columns = table.path, {"optype": piece["optype"].astype("str").str.strip()}
    for name in (*WHOLE, *TIMES, *([CHUNK] if CHUNK in piece else [])):
        comma = table.separator in (";", "\t") and has_commas(piece[name])
        columns[name] = numbers(path, name, piece[name], first, decimal_comma=comma)
    for name in WHOLE:
        columns[name] = whole_numbers(path, name, columns[name], first)
    for name, least, most in (("start_ts", -MOST_STEP, MOST_STEP), ("duration", 0, MOST_SECONDS)):
        if (bad := np.flatnonzero(~columns[name].between(least, most))).size:
            value = float(columns[name].iloc[bad[0]])
            limit = "" if value < least else f", and at most {most:g}"
            raise LogError(
                f"{path}: row {first + int(bad[0])}, column {name}, {value:g}: must be {least:g} or more{limit}"
            )
    if CHUNK in columns and (columns[CHUNK] > 0).any():
        raise LogError(f"{path}: column {CHUNK}: stages have several chunks of layers; only tables with one are read")
    return pd.DataFrame({name: columns[name] for name in COLUMNS})
